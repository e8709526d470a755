//! `host-stub info`: the plugin, and what it makes of each provider.

use std::io::Write;
use std::sync::Arc;

use clap::Args;
use serde::Serialize;

use super::{CommandError, Common, Exit, print_json};
use crate::bootstrap::{Bootstrap, Singleton};
use crate::loader::{Attributes, Component, LoadError, ProviderReport};
use plugin_api::{ABI_MAJOR, ABI_MINOR, ThreadLevel};

/// The arguments of `info`.
#[derive(Args)]
pub struct Info {
    #[command(flatten)]
    common: Common,
}

/// What `info` found.
#[derive(Serialize)]
struct Report {
    plugin: String,
    component: String,
    version: String,
    abi: String,
    host_abi: String,
    providers: Vec<ProviderReport>,
    /// The modules that the chosen provider gives, opened to see.
    modules: Vec<Attributes>,
    /// Why there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Info {
    /// Runs it. [`Exit::NoProvider`] when no provider can be used; the list is printed all the
    /// same.
    pub fn run(&self) -> Result<Exit, CommandError> {
        let params = self.common.params()?;
        let bootstrap: Arc<dyn Bootstrap> = Arc::new(Singleton::new());
        let plugin = self.common.open(&params, bootstrap)?;
        let component = Component::open(Arc::clone(&plugin))?;
        let providers = component.survey()?;
        // SAFETY: Multiple asks nothing of the caller.
        let (modules, error) = match unsafe { component.init(ThreadLevel::Multiple) } {
            Ok(transports) => {
                let modules = transports.iter().map(|t| t.attributes().clone()).collect();
                (modules, None)
            }
            Err(error) => (Vec::new(), Some(error)),
        };
        let (major, minor) = plugin.abi();
        let report = Report {
            plugin: plugin.path().display().to_string(),
            component: plugin.name().to_owned(),
            version: plugin.version().to_owned(),
            abi: format!("{major}.{minor}"),
            host_abi: format!("{ABI_MAJOR}.{ABI_MINOR}"),
            providers,
            modules,
            error: error.as_ref().map(LoadError::to_string),
        };
        if self.common.json {
            print_json(&report)?;
        } else {
            report.print(&mut std::io::stdout().lock())?;
        }
        match error {
            None => Ok(Exit::Ok),
            Some(error) => Err(error.into()),
        }
    }
}

impl Report {
    fn print(&self, out: &mut impl Write) -> std::io::Result<()> {
        writeln!(out, "plugin     {}", self.plugin)?;
        writeln!(out, "component  {}", self.component)?;
        writeln!(out, "version    {}", self.version)?;
        writeln!(
            out,
            "ABI        {} (this host: {})",
            self.abi, self.host_abi
        )?;
        writeln!(out, "providers")?;
        let width = |text: fn(&ProviderReport) -> &str| {
            self.providers
                .iter()
                .map(|provider| text(provider).len())
                .max()
                .unwrap_or(0)
        };
        let (names, domains) = (width(|p| &p.name), width(|p| &p.domain));
        for provider in &self.providers {
            let verdict = match (&provider.refusal, provider.chosen) {
                (Some(refusal), _) => format!("refused: {refusal}"),
                (None, true) => "accepted, chosen".to_owned(),
                (None, false) => "accepted".to_owned(),
            };
            writeln!(
                out,
                "  {:names$}  {:domains$}  {verdict}",
                provider.name, provider.domain
            )?;
        }
        if self.providers.is_empty() {
            writeln!(out, "  none")?;
        }
        for module in &self.modules {
            writeln!(out, "module     {} on {}", module.provider, module.domain)?;
            writeln!(out, "  completion      {}", module.completion)?;
            writeln!(out, "  abilities       {}", names_of(module.flags))?;
            writeln!(out, "  word atomics    {}", names_of(module.atomic_flags))?;
            writeln!(
                out,
                "  limits          put {}, get {}, handle {} B",
                bytes(module.put_limit),
                bytes(module.get_limit),
                module.handle_size
            )?;
            writeln!(
                out,
                "  no local handle put to {}, get to {}",
                bytes(module.put_local_registration_threshold),
                bytes(module.get_local_registration_threshold)
            )?;
            writeln!(
                out,
                "  estimates       {} us, {} Mbit/s, exclusivity {}, {} contexts",
                module.latency, module.bandwidth, module.exclusivity, module.contexts
            )?;
        }
        Ok(())
    }
}

fn names_of<F: bitflags::Flags + Copy>(flags: F) -> String {
    let names: Vec<String> = flags
        .iter_names()
        .map(|(name, _)| name.to_lowercase())
        .collect();
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(" ")
    }
}

fn bytes(count: usize) -> String {
    match count {
        usize::MAX => "any size".to_owned(),
        count => format!("{count} B"),
    }
}
