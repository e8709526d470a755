//! The devices of a process, in the form that the engine of windows uses.

use std::sync::Arc;

use osc_engine::door::{DeviceBuffer, Found, Location, OpenedMemory};

use crate::registry::{Device, Devices};

/// The devices that windows use.
#[derive(Clone)]
pub struct OfWindows(pub Arc<Devices>);

impl osc_engine::door::Devices for OfWindows {
    fn find(&self, value: u64, len: usize) -> Result<Result<Found, u64>, String> {
        let found = self.0.find(value, len);
        found.map_err(|error| error.to_string())
    }

    fn locate_itself(&self, value: u64, len: usize) -> Result<Location, String> {
        let located = self.0.locate_itself(value, len);
        located.map_err(|error| error.to_string())
    }

    fn locate_on(&self, device: i32, value: u64, len: usize) -> Result<Location, String> {
        let located = self.0.locate_on(device, value, len);
        located.map_err(|error| error.to_string())
    }

    fn device(&self, device: i32) -> Result<(u32, u64), String> {
        let known = self.0.allow(device).and_then(|()| self.0.device(device));
        let Device { iface, number, .. } = known.map_err(|error| error.to_string())?;
        Ok((iface, number))
    }

    fn allocate(&self, device: i32, len: usize) -> Result<Box<dyn DeviceBuffer>, String> {
        let memory = self.0.allocate(device, len);
        memory.map_err(|error| error.to_string())
    }

    fn export(&self, device: i32, base: u64, len: usize) -> Result<Vec<u8>, String> {
        let exported = self.0.export(device, base, len);
        exported.map_err(|error| error.to_string())
    }

    fn open(&self, exported: &[u8]) -> Result<Option<Box<dyn OpenedMemory>>, String> {
        self.0.open(exported)
    }
}
