use std::cell::RefCell;
use std::collections::BTreeMap;

use super::*;

/// An address vector: names by address. Two consecutive addresses differ by `step`.
struct Vector {
    names: RefCell<BTreeMap<fi_addr_t, Vec<u8>>>,
    next: fi_addr_t,
    step: u64,
    /// Whether the vector returns names, and whether it pads them.
    tells: bool,
    pads: bool,
}

impl Vector {
    fn new(next: fi_addr_t, step: u64) -> Vector {
        Vector {
            names: RefCell::default(),
            next,
            step,
            tells: true,
            pads: false,
        }
    }

    fn name(&self, address: fi_addr_t, buffer: &mut [u8]) -> Option<usize> {
        let names = self.names.borrow();
        let name = names.get(&address).expect("an address that is inserted");
        buffer[..name.len()].copy_from_slice(name);
        self.tells.then_some(name.len() + usize::from(self.pads))
    }
}

fn name(number: u32) -> Vec<u8> {
    format!("process {number}").into_bytes()
}

/// Adds and ends random uses of a few names, as `Addresses` does. Compares the counts with a plain list
/// of the uses.
fn like_a_list(mut vector: Vector, reuses: bool, seed: u64) -> Counted {
    let mut counted = Counted::default();
    let mut model: BTreeMap<u32, (fi_addr_t, u32)> = BTreeMap::new();
    let mut free = Vec::new();
    let mut keys = BTreeMap::new();
    let mut random = seed;
    for _ in 0..4000 {
        random = random
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let number = (random >> 33) as u32 % 40;
        let ends = random >> 62 == 0 || model.len() > 30;
        match (model.get(&number).copied(), ends) {
            (None, true) => {}
            (Some((address, uses)), true) => {
                let left = counted.end_use(address, &|at, buffer| vector.name(at, buffer));
                assert_eq!(left, uses > 1, "seed {seed}");
                if left {
                    model.insert(number, (address, uses - 1));
                } else {
                    model.remove(&number);
                    keys.remove(&address);
                    vector.names.borrow_mut().remove(&address);
                    free.push(address);
                }
            }
            (known, false) => {
                let again = counted.use_again(&name(number), &|at, buffer| vector.name(at, buffer));
                assert_eq!(again, known.map(|(address, _)| address), "seed {seed}");
                let (address, uses) = known.unwrap_or_else(|| {
                    let address = free.pop().filter(|_| reuses).unwrap_or_else(|| {
                        vector.next += vector.step;
                        vector.next
                    });
                    vector.names.borrow_mut().insert(address, name(number));
                    counted.add(&name(number), address, &|at, buffer| {
                        vector.name(at, buffer)
                    });
                    (address, 0)
                });
                model.insert(number, (address, uses + 1));
                if random & 1 << 32 == 0 {
                    counted.set_key(address, random);
                    keys.insert(address, random);
                }
            }
        }
        for (address, _) in model.values() {
            let key = keys.get(address).copied().unwrap_or(0);
            assert_eq!(counted.key(*address), key, "seed {seed}");
        }
    }
    counted
}

#[test]
fn counts_as_a_list_does() {
    for seed in 0..20 {
        let counted = like_a_list(Vector::new(999, 1), true, seed);
        assert!(counted.others.is_empty(), "numbered entries keep no name");
        like_a_list(Vector::new(999, 1), false, seed);
        like_a_list(Vector::new(0, 3), true, seed);
        like_a_list(Vector::new(1 << 40, 4096), false, seed);
    }
}

#[test]
fn keeps_the_names_that_a_provider_does_not_tell() {
    let silent = Vector {
        tells: false,
        ..Vector::new(0, 1)
    };
    let padding = Vector {
        pads: true,
        ..Vector::new(0, 1)
    };
    for vector in [silent, padding] {
        let counted = like_a_list(vector, true, 7);
        assert!(counted.uses.is_empty() && !counted.others.is_empty());
        assert_eq!(counted.others.len(), counted.other_names.len());
    }
}

#[test]
fn an_address_that_is_not_in_use_has_none_left() {
    let nothing = |_: fi_addr_t, _: &mut [u8]| None;
    assert!(!Counted::default().end_use(3, &nothing));
    assert_eq!(Counted::default().key(3), 0);
}
