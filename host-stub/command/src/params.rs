//! `host-stub params`: every parameter, its value, and the source of the value.

use std::io::Write;

use clap::Args;
use mca_params::{Entry, Level};
use serde_json::{Value, json};

use super::{CommandError, Common, Exit, print_json};
use host_stub::declarations::{DECLARATIONS, PREFIX as HOST_PREFIX};
use host_stub::job::JobError;
use host_stub::loader::LoadError;

/// The arguments of `params`.
#[derive(Args)]
pub struct ParamsCommand {
    #[command(flatten)]
    common: Common,

    /// The highest level of detail, 1 (every user) to 9 (developers).
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u8).range(1..=9))]
    level: u8,
}

/// The prefix of the names of the plugin's parameters.
const PREFIX: &str = "btl_ofi_";

impl ParamsCommand {
    /// Runs the command. [`Exit::Usage`] if a value cannot be understood; the parameters that the
    /// plugin declared before it are printed.
    pub fn run(&self) -> Result<Exit, CommandError> {
        let params = self.common.params()?;
        let plugin = self.common.open(&params)?;
        let declared = plugin.register_params();
        for declaration in DECLARATIONS {
            params.declare(declaration).map_err(JobError::from)?;
        }
        let level = Level::new(self.level).unwrap_or(Level::DEV_ALL);
        params.read(|registry| -> Result<(), CommandError> {
            let dump = registry.dump(level);
            if self.common.json {
                let entries: Vec<Value> = dump.entries().iter().map(json_of).collect();
                print_json(&entries)?;
            } else {
                write!(std::io::stdout().lock(), "{dump}")?;
            }
            for warning in registry.warnings() {
                tracing::warn!("{warning}");
            }
            let mut unknown = registry.unknown(HOST_PREFIX);
            // If the list ends early, unknown names cannot be recognised.
            if declared.is_ok() {
                unknown.extend(registry.unknown(PREFIX));
            }
            for unknown in unknown {
                tracing::warn!("{unknown}");
            }
            Ok(())
        })?;
        match declared {
            Ok(()) => Ok(Exit::Ok),
            Err(error @ LoadError::Component { .. }) if error.is_parameter() => {
                Err(CommandError::new(Exit::Usage, error.to_string()))
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn json_of(entry: &Entry) -> Value {
    json!({
        "name": entry.name,
        "framework": entry.framework,
        "component": entry.component,
        "type": entry.kind.name(),
        "value": entry.value_text,
        "default": entry.default_text,
        "source": entry.source.to_string(),
        "set_as": entry.via_synonym,
        "level": entry.level.number(),
        "help": entry.help,
        "allowed": entry.valid_values,
        "synonyms": entry.synonyms,
        "synonym_of": entry.synonym_of,
    })
}
