//! Cost of locks of all ranks of a window for one origin, up to a thousand ranks. All ranks are this process, which the window
//! knows by many numbers.

use std::sync::Arc;
use std::time::Instant;

use benches::ranks;
use benches::statistics::median;
use benches::target::Bound;
use host_stub::win::{Assertion, Info, TableChoice, WinError, Window};
use osc_engine::door::{Context, Group, Members};
use osc_engine::transport::EndpointRef;

use crate::report::Report;

const SIZES: [usize; 3] = [2, 64, 1000];
const ROUNDS: usize = 2000;

fn text(error: Box<WinError>) -> String {
    error.to_string()
}

/// Many ranks; each is this process.
struct Pretended {
    own: Members,
    size: usize,
}

impl Group for Pretended {
    fn context(&self) -> &Arc<Context> {
        self.own.context()
    }

    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        self.size
    }

    fn process(&self, _rank: usize) -> u64 {
        self.own.process(0)
    }

    fn endpoint(&self, _rank: usize) -> Result<EndpointRef, String> {
        self.own.endpoint(0)
    }

    fn is_beside(&self, rank: usize) -> bool {
        rank == 0
    }

    fn allgather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        Ok(vec![mine.to_vec(); self.size])
    }
}

/// Microseconds of locking and unlocking all ranks.
fn lock(window: &Window) -> Result<f64, String> {
    let start = Instant::now();
    window.lock_all(Assertion::empty()).map_err(text)?;
    window.unlock_all().map_err(text)?;
    Ok(start.elapsed().as_secs_f64() * 1e6)
}

/// Measures each number of ranks, the small and the large ones in turns.
pub(crate) fn measure(report: &mut Report) -> Result<(), String> {
    let provider = "lab";
    let job = ranks::job(provider, None)?;
    let info = Info::new().with_table(TableChoice::Btl);
    let windows: Vec<Window> = SIZES
        .into_iter()
        .map(|size| {
            let own = Members::from(&job);
            let group = Members::new(Arc::new(Pretended { own, size }));
            Window::allocate_with(group, 8, 1, &info).map_err(text)
        })
        .collect::<Result<_, _>>()?;
    let mut times = [const { Vec::new() }; SIZES.len()];
    for _ in 0..ROUNDS {
        for (window, times) in windows.iter().zip(&mut times) {
            times.push(lock(window)?);
        }
    }
    let mut medians = Vec::new();
    for ((window, times), size) in windows.into_iter().zip(times).zip(SIZES) {
        let took = median(times);
        medians.push(took);
        report.row(format!(
            "{provider}: lock_all and unlock_all among {size} ranks {took:.2} us"
        ));
        window.free().map_err(|e| e.to_string())?;
    }
    if let [few, .., many] = medians[..] {
        let name = "lock_all and unlock_all among 1,000 ranks, over that among 2".to_owned();
        report.target(name, many / few, Bound::Most, 1.1, "", None);
    }
    job.finalize().map_err(|e| e.to_string())
}
