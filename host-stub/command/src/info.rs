//! `host-stub info`: the plugin, and its decision about each provider.

use std::io::Write;
use std::sync::Arc;

use clap::Args;
use serde::Serialize;

use super::{CommandError, Common, Exit, print_json};
use host_stub::device::Support;
use host_stub::job::{self, JobError};
use host_stub::loader::{Attributes, Component, LoadError, ProviderReport, Transport};
use host_stub::params::Params;
use plugin_api::{ABI_MAJOR, ABI_MINOR, HmemInfo, Status, ThreadLevel, hmem_iface};

/// The arguments of `info`.
#[derive(Args)]
pub struct Info {
    #[command(flatten)]
    common: Common,
}

/// The findings of `info`.
#[derive(Serialize)]
struct Report {
    plugin: String,
    component: String,
    version: String,
    abi: String,
    host_abi: String,
    providers: Vec<ProviderReport>,
    /// The modules of the chosen provider, which were opened for this command.
    modules: Vec<Attributes>,
    /// The host's support for devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    devices: Option<DeviceReport>,
    /// The reason why there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Device support, and the paths to device memory.
#[derive(Serialize)]
struct DeviceReport {
    support: Support,
    devices: Vec<String>,
    /// The paths to memory of each kind of device.
    paths: Vec<String>,
}

/// The kinds of device that have names.
const KINDS: [(&str, u32); 3] = [
    ("CUDA", hmem_iface::CUDA),
    ("ROCm", hmem_iface::ROCR),
    ("Level Zero", hmem_iface::ZE),
];

fn device_report(transport: &Transport, params: &Params) -> Result<DeviceReport, JobError> {
    let devices = job::devices(transport, params)?;
    let path = |(name, iface): &(&str, u32)| {
        let path = match transport.query_hmem(*iface) {
            None => "none, the plugin knows of no device memory",
            Some(info) if info.provider == 1 => "direct where the provider takes it, else copies",
            Some(info) if info.overrides != HmemInfo::NONE => "copies by the user's functions",
            Some(info) if info.devices > 0 => "copies by the transport",
            Some(_) => "none, no such device and no copy functions",
        };
        format!("{name}: {path}")
    };
    let support = job::device_support(transport, &devices, params);
    Ok(DeviceReport {
        support,
        devices: devices.all().into_iter().map(|d| d.name).collect(),
        paths: KINDS.iter().map(path).collect(),
    })
}

impl Info {
    /// Runs the command. [`Exit::NoProvider`] if no provider can be used; the list is printed also
    /// then.
    pub fn run(&self) -> Result<Exit, CommandError> {
        let params = self.common.params()?;
        let plugin = self.common.open(&params)?;
        let component = Component::open(Arc::clone(&plugin))?;
        let providers = component.survey()?;
        let mut devices = None;
        let opened = match providers.iter().any(|provider| provider.chosen) {
            // SAFETY: the level Multiple requires nothing of the caller.
            true => unsafe { component.init(ThreadLevel::Multiple) },
            // The plugin would log each refusal, but the list has them already.
            false => Err(LoadError::Component {
                path: plugin.path().to_owned(),
                operation: "init",
                status: Status::NOT_AVAILABLE,
            }),
        };
        let (modules, error) = match opened {
            Ok(transports) => {
                if let Some(transport) = transports.first() {
                    devices = Some(device_report(transport, &params)?);
                }
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
            devices,
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
                "  estimates       latency {}, bandwidth {}, exclusivity {}, {} contexts",
                estimate(module.latency, "us"),
                estimate(module.bandwidth, "Mbit/s"),
                module.exclusivity,
                module.contexts
            )?;
        }
        if let Some(report) = &self.devices {
            let Support { level, why } = &report.support;
            writeln!(out, "devices    level {level}")?;
            if !why.is_empty() {
                writeln!(out, "  no higher       {why}")?;
            }
            for device in &report.devices {
                writeln!(out, "  device          {device}")?;
            }
            for path in &report.paths {
                writeln!(out, "  memory          {path}")?;
            }
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

/// Providers without a limit report the largest number, some of them a few bytes less: more than any object
/// has.
fn bytes(count: usize) -> String {
    match isize::try_from(count) {
        Ok(count) => format!("{count} B"),
        Err(_) => "no limit".to_owned(),
    }
}

/// An estimate of a module; 0 if the provider has none.
fn estimate(value: u32, unit: &str) -> String {
    match value {
        0 => "unknown".to_owned(),
        value => format!("{value} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_no_object_has_are_no_limit() {
        assert_eq!(bytes(usize::MAX), "no limit");
        // net of libfabric 1.17.
        assert_eq!(bytes(18_446_744_073_709_547_519), "no limit");
        assert_eq!(bytes(8 << 20), "8388608 B");
        assert_eq!(bytes(0), "0 B");
    }

    #[test]
    fn an_estimate_of_zero_is_unknown() {
        assert_eq!(estimate(0, "Mbit/s"), "unknown");
        assert_eq!(estimate(10_000, "Mbit/s"), "10000 Mbit/s");
    }
}
