//! Tests of the cue words of rules: a table of sentences that state a standing rule, and one of sentences that do not.

use super::rule_strictness;
use super::standing::is_standing_rule;

#[test]
fn rules_are_recognised() {
    for (sentence, expected) in [
        ("Never push to main.", Some(true)),
        ("I'd like tabs", Some(false)),
        ("I think it always breaks", Some(false)),
        ("The mustard is green.", None),
        ("I don't remember the number.", None),
        ("The stop hook printed it.", None),
        ("This could help to avoid confusion.", None),
        ("A hint is always appreciated.", None),
        ("I've only recently seen it.", None),
        ("请不要提交", Some(true)),
        ("Bitte keine neuen Abhängigkeiten", Some(false)),
        ("locations where those modules should go", None),
        ("The modules should go into src.", Some(false)),
        ("it works", None),
    ] {
        assert_eq!(rule_strictness(sentence), expected, "{sentence:?}");
    }
}

#[test]
fn a_rule_that_stays_valid_is_standing() {
    let sentences = [
        "Never sleep in tests, not even a millisecond.",
        "Don't touch the public API.",
        "Always run the linter before committing.",
        "Please never log a password.",
        "You must not add a dependency.",
        "From now on, answer in English.",
        "Under no circumstances rewrite the history of main.",
        "Only edit files below src.",
        "No new dependencies.",
        "No release until the tests have passed.",
        "No API keys should be logged.",
        "No function should have more than five parameters.",
        "Please note that we never use mocks.",
        "Avoid unwrap outside tests.",
        "Keep functions below 70 lines.",
        "Please keep the old flag working.",
        "Fix the parser, but keep the wire format stable.",
        "Keep every commit small.",
        "Make sure all tests pass before you commit.",
        "Ensure every public item has a doc comment.",
        "Stop using mocks.",
        "Run the formatter before every commit.",
        "Before each release, update the changelog.",
        "Whenever you change a prompt, run its snapshot test.",
        "Prefer small pull requests over large ones.",
        "Tests should never need the network.",
        "The parser must accept every old file.",
        "You should always write the test first.",
        "We never commit to main directly.",
        "Don't use it in tests.",
        "Don't merge without a review.",
        "Do not change any generated file by hand.",
        "Verwende immer Tabs.",
        "Niemals direkt auf main pushen.",
        "Der Server darf niemals Passwörter protokollieren.",
        "Ändere auf keinen Fall die Schnittstelle.",
        "Ne pousse jamais sur main.",
        "Utilise toujours des tabulations.",
        "Nunca borres las pruebas.",
        "Usa siempre tabuladores.",
        "Non modificare mai lo schema.",
        "Никогда не коммить в main.",
        "Всегда запускай тесты.",
        "Нельзя менять публичный интерфейс.",
        "请不要修改配置文件。",
        "每次提交前必须运行测试。",
        "必ずテストを実行してください。",
        "テストでスリープしないでください。",
        "절대 main에 푸시하지 마세요.",
    ];
    let missed: Vec<_> = sentences.into_iter().filter(|sentence| !is_standing_rule(sentence)).collect();
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn an_order_for_once_and_a_statement_are_no_standing_rules() {
    let sentences = [
        "Merge main, keep the first beat at once.",
        "Keep the first one.",
        "Keep the branch.",
        "Keep going until it is green.",
        "Stop the server.",
        "Stop after the third commit.",
        "Don't merge it yet.",
        "Don't do that.",
        "No don't set it, let's see whether it happens again.",
        "Only change the title now.",
        "Only the second one, please.",
        "Make sure it compiles.",
        "Make sure the new button is blue.",
        "You must restart the server now.",
        "Run the tests before merging this one, then stop.",
        "Run the tests.",
        "Fix the parser.",
        "No, that is wrong.",
        "No idea.",
        "Never mind.",
        "Don't worry about it.",
        "Don't forget to push.",
        "I don't know why it never works.",
        "I don't remember the reservation number.",
        "It always fails on Mondays.",
        "Always fails on Mondays.",
        "Never worked on Windows.",
        "There must be a bug in the lexer.",
        "It must be the cache.",
        "The server answered 403 forbidden.",
        "It may not work on Windows.",
        "It runs before every commit.",
        "Should we never retry?",
        "I think we should never retry.",
        "Was machst du immer?",
        "Der Test schlägt immer fehl.",
        "Le test échoue toujours.",
        "Il ne marche jamais.",
        "El servidor siempre falla.",
        "Тест всегда падает.",
        "テストが必ず失敗します。",
        "这次不要提交。",
        "Jetzt bitte nicht pushen.",
    ];
    let wrong: Vec<_> = sentences.into_iter().filter(|sentence| is_standing_rule(sentence)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
