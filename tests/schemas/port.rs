//! The operator's port.

use serde_json::Value;

use crate::site::Site;

#[tokio::test]
async fn all_schemas_are_listed_and_each_is_there_in_both_forms() {
    let site = Site::shared().await;
    let (status, list) = site.gateway.get("/schemas").await;
    assert_eq!(status, 200);
    let list: Value = serde_json::from_str(&list).unwrap();
    let list = list.as_array().unwrap();
    assert_eq!(list.len(), 14);
    for listed in list {
        let path = listed["json_schema"].as_str().unwrap();
        let (status, schema) = site.gateway.get(path).await;
        assert_eq!(status, 200);
        let schema: Value = serde_json::from_str(&schema).unwrap();
        assert!(jsonschema::meta::is_valid(&schema), "{schema}");
        assert_eq!(schema["title"], listed["event"]);
        assert_eq!(schema["$id"], path);
        let (status, text) = site.gateway.get(listed["protobuf"].as_str().unwrap()).await;
        assert_eq!(status, 200);
        let message = listed["message"].as_str().unwrap();
        let message = message.strip_prefix("jetway.v1.").unwrap();
        assert!(text.contains(&format!("message {message} {{")), "{text}");
    }
    let (status, text) = site
        .gateway
        .get("/schemas/device.property.reported/9.0")
        .await;
    assert_eq!((status, text.contains("/schemas lists all")), (404, true));
    let (status, _) = site
        .gateway
        .get("/schemas/device.property.reported/1.0?form=xml")
        .await;
    assert_eq!(status, 400);
}
