//! The part of a page of the documentation that a report writes: what stands between two marks.

/// Begins the part.
const BEGIN: &str = "<!-- written by ./dev bench report --keep -->\n";
/// Ends it.
const END: &str = "<!-- end of what is written -->\n";

/// The page with `table` in the place of what stood between its marks.
pub(crate) fn with_table(page: &str, table: &str) -> Result<String, String> {
    let missing = |mark: &str| format!("no line says {}", mark.trim());
    let (before, rest) = page.split_once(BEGIN).ok_or_else(|| missing(BEGIN))?;
    let (_, after) = rest.split_once(END).ok_or_else(|| missing(END))?;
    Ok(format!("{before}{BEGIN}\n{}\n\n{END}{after}", table.trim()))
}

#[cfg(test)]
mod tests {
    use super::{BEGIN, END, with_table};

    #[test]
    fn only_what_stands_between_the_marks_changes() {
        let page = format!("above\n{BEGIN}old\n{END}below\n");
        let new = with_table(&page, "| new |\n").unwrap();
        assert_eq!(new, format!("above\n{BEGIN}\n| new |\n\n{END}below\n"));
        assert_eq!(with_table(&new, "| new |").unwrap(), new);
    }

    #[test]
    fn a_page_without_marks_is_refused() {
        let refused = with_table("above\n", "").unwrap_err();
        assert!(refused.contains("./dev bench report"), "{refused}");
        assert!(with_table(BEGIN, "").is_err());
    }
}
