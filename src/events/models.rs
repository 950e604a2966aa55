//! The thing models of products: bucket `jetway_models`, one JSON document a product, in memory and kept up to date.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use tokio_util::sync::CancellationToken;

use crate::jetstream::bucket::{self, Bucket, Change, Watch};
use crate::mapping;
use crate::thing::Model;

/// The bucket. A key is the product's token in subjects.
pub const MODELS: &str = "jetway_models";
/// Most products that are known; those beyond are not checked.
const PRODUCTS_MAX: usize = 10_000;

/// The models that are known; cheap to clone.
#[derive(Clone, Default)]
pub struct Models {
    /// By key.
    known: Arc<RwLock<HashMap<String, Arc<Model>>>>,
}

impl Models {
    /// Reads all models; what becomes of them later is told by the watch.
    ///
    /// # Errors
    /// [`bucket::Error::Read`].
    pub async fn load(bucket: &Bucket) -> Result<(Self, Watch), bucket::Error> {
        let models = Self::default();
        let watch = bucket.watch(">").await?;
        let mut scan = bucket.scan(">");
        loop {
            let page = scan.next_page().await?;
            if page.is_empty() {
                return Ok((models, watch));
            }
            for (key, entry) in page {
                models.change(key, entry.value.as_deref());
            }
        }
    }

    /// Keeps them up to date until `shutdown`.
    pub async fn run(self, mut watch: Watch, shutdown: CancellationToken) {
        while let Some(change) = shutdown.run_until_cancelled(watch.next()).await {
            match change {
                Change::Entry(key, entry) => self.change(key, entry.value.as_deref()),
                // What it holds comes again.
                Change::Reset => self.write(|known| known.clear()),
            }
        }
    }

    /// The model of a product; none if it has none.
    pub(super) fn get(&self, product: &str) -> Option<Arc<Model>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if known.is_empty() {
            return None;
        }
        known.get(&*mapping::product_token(product)).cloned()
    }

    fn change(&self, key: String, document: Option<&[u8]>) {
        let Some(document) = document else {
            self.write(|known| drop(known.remove(&key)));
            return;
        };
        match Model::parse(document) {
            Ok(model) => self.write(|known| {
                if known.len() < PRODUCTS_MAX || known.contains_key(&key) {
                    known.insert(key, Arc::new(model));
                } else {
                    tracing::error!(
                        key,
                        PRODUCTS_MAX,
                        "too many thing models, product not checked"
                    );
                }
            }),
            // The one of before, if there is one, is better than none.
            Err(fault) => tracing::error!(key, ?fault, "thing model not usable"),
        }
    }

    fn write(&self, change: impl FnOnce(&mut HashMap<String, Arc<Model>>)) {
        change(&mut self.known.write().unwrap_or_else(PoisonError::into_inner));
    }
}
