//! What is published for a connection that is not there any more: Wills, and the status of devices whose node died.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Shared, behind};
use crate::access::Rules;
use crate::device::{Connection, Device, Scope};
use crate::jetstream::Refusal;
use crate::mapping::Mapping;
use crate::mqtt::Publish;
use crate::ownership::{Kind, Orphan};
use crate::status::Slot;
use crate::tasks::OnExit;
use crate::uplink::Sender;

/// Publishes a Will under an id of its connection, so that whoever does it again adds nothing; returns once it is stored, or
/// the stream refused it.
///
/// It was authorised when it was accepted (G10); what is bound to its device, and which rules there are by now, counts too.
pub(super) async fn publish_will(shared: &Shared, owner: &Connection, will: &Publish) {
    let (id, scope) = (&owner.device, shared.authenticator.scope());
    let address = shared.mapping.address(&will.topic);
    let is_of_another = scope == Scope::Full
        && address.is_some_and(|it| (it.product, it.name) != (id.product(), id.name()));
    let sub_devices = match is_of_another {
        true => behind::find(shared, id).await,
        false => None,
    };
    let device = Device {
        id: id.clone(),
        scope,
        sub_devices: sub_devices.unwrap_or_default(),
        access: None,
    };
    let device = shared.with_rules(device, Rules::default(), &owner.client_id);
    let tokens = Mapping::device_tokens(&owner.device).into();
    let receipts = Arc::default();
    let mut sender = Sender::new(device, &tokens, &owner.connection_id, &shared.run, receipts);
    loop {
        let id: Box<str> = format!("{}.will", owner.connection_id).into();
        let prepared = match shared.uplink.prepare(&mut sender, will, Some(id)) {
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
        sender.receipts.finished(sender.accepted).await;
        match sender.receipts.take_refused().pop() {
            None => return,
            Some((_, Refusal::Unanswered)) => {}
            Some((_, refusal)) => {
                tracing::warn!(device = %owner.device, %refusal, "will not stored");
                return;
            }
        }
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
        let shared = Arc::clone(&shared);
        let tasks = shared.tasks.clone();
        tasks.spawn("orphan", OnExit::Log, async move {
            let slots = shared.status.slots().await;
            care(&shared, orphan, slots).await;
        });
    }
}

/// Does what a session is owed, and writes its end last.
pub(super) async fn care(shared: &Shared, orphan: Orphan, slots: [Slot; 2]) {
    let connection = &orphan.connection;
    if orphan.kind == Kind::Lost {
        shared.status.lost(slots, connection).await;
        behind::lose(shared, connection).await;
    }
    if let Some(will) = &orphan.will {
        publish_will(shared, connection, will).await;
    }
    orphan.held.settle().await;
}
