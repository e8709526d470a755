//! Reads callgrind's output: instructions by object file, without the instructions of called
//! functions in other files.

use std::collections::HashMap;
use std::path::Path;

/// Instructions of each object file, named as the file name without its folder.
pub(super) fn by_object(path: &Path) -> Result<HashMap<String, u64>, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(parse(&text))
}

/// The format is documented in valgrind's manual, "Callgrind Format Specification": `ob=` names the
/// object of the cost lines that follow; `(n) name` defines an abbreviation and `(n)` uses it; the
/// line after `calls=` has the cost of the called function, which is counted in that function.
fn parse(text: &str) -> HashMap<String, u64> {
    let mut names: HashMap<&str, &str> = HashMap::new();
    let mut costs: HashMap<String, u64> = HashMap::new();
    let mut object = "";
    let mut inclusive = false;
    for line in text.lines() {
        if let Some(value) = line.strip_prefix("ob=").or(line.strip_prefix("cob=")) {
            let (key, name) = value.split_once(' ').unwrap_or((value, ""));
            if !name.is_empty() {
                names.insert(key, name);
            }
            if line.starts_with("ob=") {
                object = names.get(key).copied().unwrap_or(key);
            }
        } else if line.starts_with("calls=") {
            inclusive = true;
        } else if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) {
            if inclusive {
                inclusive = false;
                continue;
            }
            let cost = line.split_ascii_whitespace().nth(1);
            let file = object.rsplit('/').next().unwrap_or(object);
            *costs.entry(file.to_owned()).or_default() +=
                cost.and_then(|c| c.parse().ok()).unwrap_or(0);
        }
    }
    costs
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn cost_of_called_functions_counts_where_it_is_spent() {
        let text = "events: Ir\nob=(1) /a/libours.so\nfn=(1) put\n10 7\ncob=(2) /b/libother.so\n\
                    cfn=(2) write\ncalls=3 0\n11 900\n+2 5\n\nob=(2)\nfn=(2)\n1 900\n\nob=(1)\n* 1\n";
        let costs = parse(text);
        assert_eq!(costs["libours.so"], 13);
        assert_eq!(costs["libother.so"], 900);
    }
}
