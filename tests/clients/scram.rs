//! Enhanced authentication as scramp for Python does it: the script beside this file says what it saw.

use serde_json::json;

use crate::run_python;
use crate::support::{DevOptions, Gateway};

const AUTH: u8 = 15;
const DISCONNECT: u8 = 14;

#[tokio::test]
async fn a_device_proves_its_secret_by_scram() {
    let gateway = Gateway::dev(DevOptions::default()).await;
    let devices = gateway.add_devices("scram", 1);
    let mqtt = gateway.mqtt();
    let arguments = json!({
        "mqtt": [mqtt.ip(), mqtt.port()],
        "client_id": devices[0].credentials.client_id,
        "secret": devices[0].secret,
    });
    let expected = json!({
        "right": 0,
        "asked": 0,
        "wrong secret": 0x86,
        "unknown device": 0x86,
        "other user name": 0x86,
        "again": [AUTH, 0],
        "again, asked": [AUTH, 0],
        "again, wrong secret": [DISCONNECT, 0x87],
    });
    assert_eq!(run_python("scram.py", &arguments), expected);
}
