//! Names that most tests over the lab provider use.

#![allow(unused_imports, reason = "each test file uses a part")]

pub(crate) use crate::common::prelude::*;

pub(crate) use super::dice::Dice;
pub(crate) use super::group::{
    Plan, SLOTS, Shape, counters, disconnect_all, judged, judged_shares, opened,
};
pub(crate) use super::judge::Judge;
pub(crate) use super::model::{SLOT, serve_applies};
pub(crate) use super::said::{Kept, Losses};
pub(crate) use super::{
    Tally, announce, descriptors, registration_modes, shape, stats, violations,
};
pub(crate) use super::{alone, isolated_as, isolated_seeds, seeds};
