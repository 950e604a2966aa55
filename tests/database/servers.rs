//! The tests' own servers: killed and restarted they keep port and data, paused they are silent, dropped they leave nothing.

use std::fs;
use std::ops::Deref;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::time::Duration;

use lapin::options::{
    BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions,
};
use lapin::{BasicProperties, Connection as Amqp, ConnectionProperties};
use sqlx::{Connection as _, Executor as _, MySqlConnection, PgConnection};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::{MariaDb, Postgres, RabbitMq, Redis, Server, eventually};

/// Nobody answers within it.
const SILENCE: Duration = Duration::from_millis(300);

#[tokio::test]
async fn postgres_keeps_its_data_through_a_kill() {
    let server = Postgres::start().await;
    let url = server.database("kept").await;
    let mut connection = PgConnection::connect(&url).await.unwrap();
    connection
        .execute("CREATE TABLE kept (n INT)")
        .await
        .unwrap();
    connection
        .execute("INSERT INTO kept VALUES (7)")
        .await
        .unwrap();
    server.restart().await;
    connection.execute("SELECT 1").await.unwrap_err();
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let count = "SELECT n FROM kept";
    assert_eq!(
        sqlx::query_scalar::<_, i32>(count)
            .fetch_one(&mut connection)
            .await
            .unwrap(),
        7
    );
    // The process of this connection is stopped as well, and not the first one alone.
    server.pause().await;
    timeout(SILENCE, connection.execute("SELECT 1"))
        .await
        .unwrap_err();
    server.resume();
    connection.close_hard().await.unwrap();
    PgConnection::connect(&url).await.unwrap();
    assert_leaves_nothing(server.port(), server).await;
}

#[tokio::test]
async fn mariadb_keeps_its_data_through_a_kill() {
    let server = MariaDb::start().await;
    let url = server.database("kept").await;
    let mut connection = MySqlConnection::connect(&url).await.unwrap();
    connection
        .execute("CREATE TABLE kept (n INT)")
        .await
        .unwrap();
    connection
        .execute("INSERT INTO kept VALUES (7)")
        .await
        .unwrap();
    server.restart().await;
    connection.execute("SELECT 1").await.unwrap_err();
    let mut connection = MySqlConnection::connect(&url).await.unwrap();
    let count = "SELECT n FROM kept";
    assert_eq!(
        sqlx::query_scalar::<_, i32>(count)
            .fetch_one(&mut connection)
            .await
            .unwrap(),
        7
    );
    server.pause().await;
    timeout(SILENCE, connection.execute("SELECT 1"))
        .await
        .unwrap_err();
    server.resume();
    MySqlConnection::connect(&url).await.unwrap();
    assert_leaves_nothing(server.port(), server).await;
}

#[tokio::test]
async fn redis_keeps_its_data_through_a_kill() {
    let server = Redis::start().await;
    let client = redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut set = redis::cmd("SET");
    set.arg("kept").arg(7);
    set.exec_async(&mut connection).await.unwrap();
    server.restart().await;
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut get = redis::cmd("GET");
    get.arg("kept");
    assert_eq!(get.query_async::<i64>(&mut connection).await.unwrap(), 7);
    server.pause().await;
    timeout(SILENCE, get.query_async::<i64>(&mut connection))
        .await
        .unwrap_err();
    server.resume();
    assert_eq!(get.query_async::<i64>(&mut connection).await.unwrap(), 7);
    assert_leaves_nothing(server.port(), server).await;
}

#[tokio::test]
async fn rabbitmq_keeps_its_data_through_a_kill() {
    let server = RabbitMq::start().await;
    let connect = || async {
        Amqp::connect(&server.url(), ConnectionProperties::default())
            .await
            .unwrap()
    };
    let connection = connect().await;
    let channel = connection.create_channel().await.unwrap();
    let options = QueueDeclareOptions {
        durable: true,
        ..QueueDeclareOptions::default()
    };
    channel
        .queue_declare("kept".into(), options, Default::default())
        .await
        .unwrap();
    channel
        .confirm_select(ConfirmSelectOptions::default())
        .await
        .unwrap();
    let lasting = BasicProperties::default().with_delivery_mode(2);
    let published = channel.basic_publish(
        "".into(),
        "kept".into(),
        BasicPublishOptions::default(),
        b"7",
        lasting,
    );
    published.await.unwrap().await.unwrap();
    server.write_tables().await;
    server.restart().await;
    let connection = connect().await;
    let channel = connection.create_channel().await.unwrap();
    let kept = channel
        .basic_get("kept".into(), BasicGetOptions::default())
        .await
        .unwrap();
    assert_eq!(kept.unwrap().data, b"7");
    server.pause().await;
    timeout(SILENCE, connection.create_channel())
        .await
        .unwrap_err();
    server.resume();
    connection.create_channel().await.unwrap();
    assert_leaves_nothing(server.port(), server).await;
}

/// Also in a test that fails.
async fn assert_leaves_nothing(port: u16, server: impl Deref<Target = Server>) {
    let folder = server.folder().to_owned();
    let failing = panic::catch_unwind(AssertUnwindSafe(move || {
        let _server = server;
        panic!("a failing test, for the end of the server's log");
    }));
    assert!(failing.is_err());
    eventually("nothing is left", async || match processes_in(&folder) {
        left if left.is_empty() && !folder.exists() => Ok(()),
        left => Err(format!("{left:?}")),
    })
    .await;
    TcpStream::connect(("127.0.0.1", port)).await.unwrap_err();
}

/// Command lines that name the folder, or have their working directory there.
fn processes_in(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().unwrap();
    let processes = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .map(|entry| entry.path());
    let found = processes.filter_map(|path| {
        let command = fs::read(path.join("cmdline")).ok()?;
        let command = String::from_utf8_lossy(&command).into_owned();
        let works_there = fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder));
        (works_there || command.contains(folder)).then_some(command)
    });
    found.collect()
}
