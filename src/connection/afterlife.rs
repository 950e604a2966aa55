//! What is published for a connection that is not there any more: Wills, and the status of devices whose node died.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Shared;
use crate::device::{Connection, Device};
use crate::mapping::Mapping;
use crate::mqtt::Publish;
use crate::ownership::{Kind, Orphan};
use crate::session::CloseReason;
use crate::tasks::OnExit;
use crate::uplink::Sender;

/// Publishes a Will under an id of its connection, so that whoever does it again adds nothing; returns once it is finished.
///
/// It was authorised when it was accepted (G10).
pub(super) async fn publish_will(shared: Arc<Shared>, owner: Connection, will: Publish) {
    let device = Device {
        id: owner.device.clone(),
        scope: shared.authenticator.scope(),
        sub_devices: [].into(),
    };
    let tokens = Mapping::device_tokens(&owner.device).into();
    let mut sender = Sender::new(device, &tokens, &owner.connection_id, &shared.run);
    let id: Box<str> = format!("{}.will", owner.connection_id).into();
    let prepared = match shared.uplink.prepare(&mut sender, &will, Some(id)) {
        Ok(prepared) => prepared,
        Err(error) => {
            tracing::warn!(device = %owner.device, %error, "will not published");
            return;
        }
    };
    if let Some(retained) = &prepared.retained {
        shared.retained.write(retained).await;
    }
    let permit = shared.uplink.clone().permit(will.content_bytes()).await;
    shared.uplink.publish(&mut sender, prepared, permit);
    let receipts = Arc::clone(&sender.receipts);
    std::future::poll_fn(|context| receipts.poll_finished(context, 0)).await;
    for (_, refusal) in receipts.take_refused() {
        tracing::warn!(device = %owner.device, %refusal, "will not stored");
    }
}

/// Cares for orphans until `shutdown`.
pub async fn run(
    shared: Arc<Shared>,
    mut orphans: mpsc::Receiver<Orphan>,
    shutdown: CancellationToken,
) {
    loop {
        let orphan = tokio::select! {
            () = shutdown.cancelled() => return,
            orphan = orphans.recv() => orphan,
        };
        let Some(orphan) = orphan else { return };
        let care = care(Arc::clone(&shared), orphan);
        shared.tasks.spawn("orphan", OnExit::Log, care);
    }
}

async fn care(shared: Arc<Shared>, mut orphan: Orphan) {
    if orphan.kind == Kind::Lost {
        let slot = shared.status.slot().await;
        shared
            .status
            .disconnected(slot, &orphan.connection, CloseReason::NodeLost)
            .await;
    }
    if let Some(will) = orphan.will.take() {
        publish_will(Arc::clone(&shared), orphan.connection.clone(), will).await;
    }
    let connection_id = orphan.connection.connection_id.clone();
    if let Err(error) = orphan.settle().await {
        tracing::info!(%connection_id, %error, "orphan not settled");
    }
}
