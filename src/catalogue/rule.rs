//! Rules of products: which topics their devices may use besides, and which they may not.
//!
//! A rule has no name: the same one is there once, and is removed by what it says. What cannot be read as a rule is an error of
//! the whole look: a denial that is left out would allow.

use super::columns::Columns;
use super::error::Error;
use super::statement::Value;
use super::tables::Catalogue;
use super::write::now_ms;
use crate::access::{RULES_MAX, Rule, Rules, RulesByProduct};
use crate::database::{Fate, Pool, fate, on};

const ADD: &str = "INSERT INTO product_rule (product_id, effect, action, topic_filter, created_at_ms) \
     VALUES (?, ?, ?, ?, ?)";
const REMOVE: &str = "DELETE FROM product_rule WHERE product_id = ? AND effect = ? AND action = ? AND topic_filter = ?";
const ALL: &str = "SELECT product_id, effect, action, topic_filter FROM product_rule \
     ORDER BY product_id, effect, action, topic_filter";
const OF_PRODUCT: &str = "SELECT product.id, effect, action, topic_filter FROM product \
     LEFT JOIN product_rule ON product_rule.product_id = product.id WHERE product.id = ? \
     ORDER BY effect, action, topic_filter";

impl Catalogue {
    /// Adds a rule to a product. Whoever is connected is held to it once gateways are told.
    ///
    /// # Errors
    /// [`Error::Unknown`] when the product is not there, [`Error::Conflict`] when the rule is, or [`RULES_MAX`] others are,
    /// [`Error::Database`].
    pub async fn add_rule(&self, product: &str, rule: &Rule) -> Result<(), Error> {
        if self.rules_of(product).await?.len() >= RULES_MAX {
            let words = format!("product {product} has {RULES_MAX} rules, which is the most");
            return Err(Error::Conflict(words));
        }
        let [product_id, effect, action, filter] = values(product, rule);
        let now = Value::Number(now_ms());
        let values = [product_id, effect, action, filter, now];
        match self.run(ADD, &values).await {
            Ok(_) => Ok(()),
            Err(error) => Err(match fate(&error) {
                Fate::Duplicate => {
                    Error::Conflict(format!("product {product} has this rule already"))
                }
                Fate::Refused => Error::Unknown(format!("product {product}")),
                Fate::Unavailable | Fate::Conflict => Error::Database("add a rule", error),
            }),
        }
    }

    /// Removes a rule of a product.
    ///
    /// # Errors
    /// [`Error::Unknown`] when it is not there, [`Error::Database`].
    pub async fn remove_rule(&self, product: &str, rule: &Rule) -> Result<(), Error> {
        let removed = self.run(REMOVE, &values(product, rule)).await;
        match removed.map_err(|source| Error::Database("remove a rule", source))? {
            0 => Err(Error::Unknown(format!("rule {rule} of product {product}"))),
            _ => Ok(()),
        }
    }

    /// The rules of a product, in the order of the bytes of their words.
    ///
    /// # Errors
    /// [`Error::Unknown`] when the product is not there, [`Error::Database`] when there is no answer, or no rule is in it.
    pub async fn rules_of(&self, product: &str) -> Result<Vec<Rule>, Error> {
        let sql = self.pool.kind().statement(OF_PRODUCT);
        let rows = on!(Pool, &self.pool, Sql, pool => {
            let rows = sqlx::query::<Sql>(sql).bind(product).fetch_all(pool).await;
            rows.and_then(|rows| rows.iter().map(rule).collect::<Result<Vec<_>, _>>())
        });
        let rows = rows.map_err(|source| Error::Database("list rules", source))?;
        match rows.is_empty() {
            true => Err(Error::Unknown(format!("product {product}"))),
            false => Ok(rows.into_iter().filter_map(|(_, rule)| rule).collect()),
        }
    }

    /// The rules of all products.
    ///
    /// # Errors
    /// As [`rules_of`](Self::rules_of).
    pub async fn rules(&self) -> Result<RulesByProduct, Error> {
        let sql = self.pool.kind().statement(ALL);
        let rows = on!(Pool, &self.pool, Sql, pool => {
            let rows = sqlx::query::<Sql>(sql).fetch_all(pool).await;
            rows.and_then(|rows| rows.iter().map(rule).collect::<Result<Vec<_>, _>>())
        });
        let rows = rows.map_err(|source| Error::Database("read rules", source))?;
        let mut rules = RulesByProduct::new();
        for of_product in rows.chunk_by(|(one, _), (other, _)| one == other) {
            let [(product, _), ..] = of_product else {
                continue;
            };
            let all = of_product.iter().filter_map(|(_, rule)| rule.clone());
            rules.insert(product.clone(), all.collect::<Rules>());
        }
        Ok(rules)
    }
}

fn values<'v>(product: &'v str, rule: &'v Rule) -> [Value<'v>; 4] {
    [
        Value::Text(product),
        Value::Text(rule.effect.as_str()),
        Value::Text(rule.action.as_str()),
        Value::Text(rule.filter.as_str()),
    ]
}

/// A product and its rule, if the row has one.
fn rule(row: &impl Columns) -> Result<(String, Option<Rule>), sqlx::Error> {
    let product = row.text(0)?;
    let Some(effect) = row.text_or_null(1)? else {
        return Ok((product, None));
    };
    let no_rule = |expected: &'static str| {
        sqlx::Error::Decode(format!("rule of product {product}: {expected}").into())
    };
    let rule = Rule {
        effect: effect.parse().map_err(no_rule)?,
        action: row.text(2)?.parse().map_err(no_rule)?,
        filter: row.text(3)?.parse().map_err(no_rule)?,
    };
    Ok((product, Some(rule)))
}
