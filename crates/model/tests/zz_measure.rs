//! x
use std::time::Instant;
#[test]
fn measure() {
    for mb in [1usize, 2, 4] {
        let unit = "The session cache of worker 17 grows e.g. because src/lib.rs keeps every entry of file_abc.rs. Then it fails! ";
        let one = unit.repeat(mb * 1_000_000 / unit.len());
        let t = Instant::now();
        let s: Vec<&str> = model::extractive::sentences(&one).collect();
        let a = t.elapsed();
        let t = Instant::now();
        let r = model::extractive::rank(&s);
        println!("{mb} MB: {} sentences {:?}, rank {:?} {}", s.len(), a, t.elapsed(), r.len());
        let long = "word ".repeat(mb * 200_000);
        let t = Instant::now();
        println!("  no end: {} {:?}", model::extractive::sentences(&long).count(), t.elapsed());
        let lines = "- item\n".repeat(mb * 100_000);
        let t = Instant::now();
        println!("  lines: {} {:?}", model::extractive::sentences(&lines).count(), t.elapsed());
        let t = Instant::now();
        println!("  estimate {} {:?}", model::tokens::estimate(&one), t.elapsed());
    }
    let mut m = Vec::new();
    for i in 0..20_000 {
        m.push(protocol::Message::human("hello world"));
        m.push(protocol::Message::Ai(protocol::AiMessage { content: vec![protocol::Block::ToolCall { id: "x".into(), name: "r".into(), args: serde_json::json!({"p": i}) }], ..Default::default() }));
        m.push(protocol::Message::Tool(protocol::ToolMessage { id: None, call_id: "x".into(), name: None, content: vec![protocol::Block::text("ok")], status: Default::default() }));
    }
    let t = Instant::now();
    let l = model::transcript::legal(&m, &model::transcript::Profile::of(model::Provider::Anthropic));
    println!("legal {} {:?}", l.len(), t.elapsed());
}
