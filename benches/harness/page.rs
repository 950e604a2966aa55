//! The results as one HTML page with plots in SVG, without scripts and without anything from elsewhere.

use std::fmt::Write as _;

use crate::report::{Comparison, Report};

const COLOURS: [&str; 6] = [
    "#1b6ca8", "#c0392b", "#2e8b57", "#8e44ad", "#b9770e", "#34495e",
];
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 220.0;
const MARGIN: f64 = 60.0;

/// A line of a plot: its name, and a value for each second.
struct Line {
    name: String,
    values: Vec<f64>,
}

/// The page.
pub(crate) fn render(comparison: &Comparison) -> String {
    let mut page = String::from(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>jetway-bench</title>\
         <style>body{font:15px/1.5 sans-serif;max-width:60em;margin:2em auto;color:#222}\
         table{border-collapse:collapse}td,th{padding:.2em .8em;text-align:right;border-bottom:1px solid #ddd}\
         td:first-child,th:first-child{text-align:left}svg{display:block;margin:1em 0}text{font:12px sans-serif}</style>\
         <h1>jetway-bench</h1>",
    );
    summary(comparison, &mut page);
    let lines = |value: &dyn Fn(&Report) -> Vec<f64>| -> Vec<Line> {
        let line = |report: &Report| Line {
            name: report.title(),
            values: value(report),
        };
        comparison.reports.iter().map(line).collect()
    };
    let rate = lines(&|report| {
        let seconds = report.seconds.iter();
        seconds.map(|second| second.answers as f64).collect()
    });
    plot("Answers a second", &rate, &mut page);
    let p99 = lines(&|report| {
        let seconds = report.seconds.iter();
        seconds.map(|second| second.latency.p99).collect()
    });
    plot("p99 of each second, ms", &p99, &mut page);
    for report in &comparison.reports {
        let process = |process: &crate::report::Process| Line {
            name: process.name.clone(),
            values: process.cores_by_second.clone(),
        };
        let lines: Vec<Line> = report.processes.iter().map(process).collect();
        let title = format!("Cores: {}", report.title());
        plot(&title, &lines, &mut page);
    }
    page.push_str("</html>\n");
    page
}

fn summary(comparison: &Comparison, page: &mut String) {
    page.push_str("<table><tr><th>run<th>answers/s<th>p50 ms<th>p99 ms<th>p99.9 ms<th>CPU µs an answer<th>stored");
    for report in &comparison.reports {
        let latency = report.latency.unwrap_or_default();
        let cpu: Vec<String> = report
            .processes
            .iter()
            .map(|process| {
                format!(
                    "{} {:.2}",
                    escaped(&process.name),
                    process.cpu_us_per_answer
                )
            })
            .collect();
        let stored = match report.stored {
            None => "–".to_owned(),
            Some(stored) if stored.is_clean() => "each, once, in order".to_owned(),
            Some(stored) => escaped(&format!("{stored:?}")),
        };
        write!(
            page,
            "<tr><td>{}<td>{:.0}<td>{:.2}<td>{:.2}<td>{:.2}<td>{}<td>{stored}",
            escaped(&report.title()),
            report.per_second,
            latency.p50,
            latency.p99,
            latency.p999,
            cpu.join("<br>"),
        )
        .expect("a text in memory grows");
    }
    page.push_str("</table>");
    for figure in comparison.reports.iter().flat_map(|report| {
        let own = report.figures.iter();
        own.map(move |figure| (report.title(), figure))
    }) {
        let (title, figure) = figure;
        let (title, what) = (escaped(&title), escaped(&figure.what));
        write!(
            page,
            "<p>{title}: {what}: {:.1} {}",
            figure.value, figure.unit
        )
        .expect("a text in memory grows");
    }
}

fn plot(title: &str, lines: &[Line], page: &mut String) {
    let values = || lines.iter().flat_map(|line| line.values.iter().copied());
    let top = values().fold(0.0, f64::max);
    let length = lines
        .iter()
        .map(|line| line.values.len())
        .max()
        .unwrap_or(0);
    if top <= 0.0 || length < 2 {
        return;
    }
    let x = |index: usize| MARGIN + index as f64 * (WIDTH - 2.0 * MARGIN) / (length - 1) as f64;
    let y = |value: f64| HEIGHT - 30.0 - value / top * (HEIGHT - 60.0);
    let mut svg = format!(
        "<h2>{}</h2><svg width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\"><title>{}</title>\
         <line x1=\"{MARGIN}\" y1=\"{base}\" x2=\"{right}\" y2=\"{base}\" stroke=\"#999\"/>\
         <text x=\"4\" y=\"{ceiling}\">{top:.2}</text><text x=\"4\" y=\"{base}\">0</text>\
         <text x=\"{right}\" y=\"{below}\">{length} s</text>",
        escaped(title),
        escaped(title),
        base = y(0.0),
        right = WIDTH - MARGIN,
        ceiling = y(top) + 4.0,
        below = HEIGHT - 10.0,
    );
    for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let points: Vec<String> = line
            .values
            .iter()
            .enumerate()
            .map(|(index, value)| format!("{:.1},{:.1}", x(index), y(*value)))
            .collect();
        write!(
            svg,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" points=\"{}\"/>",
            points.join(" ")
        )
        .expect("a text in memory grows");
    }
    svg.push_str("</svg><p>");
    for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        write!(
            svg,
            "<span style=\"color:{colour}\">■</span> {} ",
            escaped(&line.name)
        )
        .expect("a text in memory grows");
    }
    page.push_str(&svg);
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_a_line_for_each_and_names_cannot_break_the_page() {
        let line = |name: &str| Line {
            name: name.to_owned(),
            values: vec![1.0, 2.0],
        };
        let mut page = String::new();
        plot("a<b", &[line("<x>"), line("y")], &mut page);
        assert_eq!(page.matches("<polyline").count(), 2);
        assert!(page.contains("a&lt;b") && page.contains("&lt;x&gt;") && !page.contains("<x>"));
        let mut empty = String::new();
        plot("nothing", &[], &mut empty);
        assert_eq!(empty, "");
    }
}
