//! Rules of products in the catalogue, on each kind of database.

use jetway::access::{RULES_MAX, Rule};
use jetway::catalogue::{Catalogue, Error};
use jetway::database::Kind;

use crate::rig::{Site, commit, on_each};

on_each!(
    rules_are_told_apart_by_what_they_say_and_go_with_their_product,
    what_is_no_rule_fails_the_whole_look,
);

fn rule(effect: &str, action: &str, filter: &str) -> Rule {
    Rule {
        effect: effect.parse().unwrap(),
        action: action.parse().unwrap(),
        filter: filter.parse().unwrap(),
    }
}

async fn rules_are_told_apart_by_what_they_say_and_go_with_their_product(site: &Site, _: Kind) {
    let catalogue = Catalogue::open(&site.config).await.unwrap();
    let one = rule("allow", "both", "$a/{productID}/x");
    let unknown = catalogue.add_rule("p", &one).await;
    assert!(matches!(unknown, Err(Error::Unknown(_))));
    for product in ["p", "p ", "q"] {
        catalogue.add_product(product).await.unwrap();
    }
    let others = [
        rule("deny", "both", "$a/{productID}/x"),
        rule("allow", "publish", "$a/{productID}/x"),
        rule("allow", "both", "$a/{productID}/X"),
        rule("allow", "both", "$a/{productID}/x "),
    ];
    catalogue.add_rule("p", &one).await.unwrap();
    catalogue.add_rule("p ", &one).await.unwrap();
    for other in &others {
        catalogue.add_rule("p", other).await.unwrap();
    }
    let again = catalogue.add_rule("p", &one).await;
    assert!(matches!(again, Err(Error::Conflict(_))));
    assert_eq!(catalogue.rules_of("q").await.unwrap(), []);
    let listed = catalogue.rules_of("p").await.unwrap();
    assert_eq!(listed.len(), 5);
    let all = catalogue.rules().await.unwrap();
    assert_eq!((&*all["p"], &*all["p "]), (&*listed, &[one.clone()][..]));
    assert_eq!(all.len(), 2);

    catalogue.remove_rule("p", &others[0]).await.unwrap();
    let twice = catalogue.remove_rule("p", &others[0]).await;
    assert!(matches!(twice, Err(Error::Unknown(_))));
    assert_eq!(catalogue.rules_of("p").await.unwrap().len(), 4);
    catalogue.remove_product("p").await.unwrap();
    let all = catalogue.rules().await.unwrap();
    assert_eq!(all.into_keys().collect::<Vec<_>>(), ["p "]);

    for number in 0..RULES_MAX {
        let rule = rule("deny", "both", &format!("$a/{number}"));
        catalogue.add_rule("q", &rule).await.unwrap();
    }
    let too_many = catalogue.add_rule("q", &one).await;
    assert!(matches!(too_many, Err(Error::Conflict(_))));
}

async fn what_is_no_rule_fails_the_whole_look(site: &Site, _: Kind) {
    let catalogue = Catalogue::open(&site.config).await.unwrap();
    catalogue.add_product("p").await.unwrap();
    let good = rule("allow", "both", "a");
    catalogue.add_rule("p", &good).await.unwrap();
    let spoiled = "UPDATE product_rule SET effect = 'perhaps'";
    commit(&site.pool().await, spoiled).await.unwrap();
    assert!(matches!(catalogue.rules().await, Err(Error::Database(..))));
    assert!(catalogue.rules_of("p").await.is_err());
}
