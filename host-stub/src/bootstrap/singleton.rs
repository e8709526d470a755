//! A job of one process that no launcher started.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::protocol::{check_item, check_key};
use super::{Bootstrap, BootstrapError, Progress};

/// The only rank of a job.
pub struct Singleton {
    job: String,
    published: Mutex<HashMap<String, Vec<u8>>>,
}

impl Singleton {
    /// A new job.
    pub fn new() -> Self {
        Singleton {
            job: format!("single-{}", std::process::id()),
            published: Mutex::new(HashMap::new()),
        }
    }
}

impl Default for Singleton {
    fn default() -> Self {
        Self::new()
    }
}

impl Bootstrap for Singleton {
    fn rank(&self) -> u32 {
        0
    }

    fn size(&self) -> u32 {
        1
    }

    fn job(&self) -> &str {
        &self.job
    }

    fn put(&self, key: &str, data: &[u8]) -> Result<(), BootstrapError> {
        check_key(key)?;
        check_item(data)?;
        self.published
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key.to_owned(), data.to_vec());
        Ok(())
    }

    fn get(&self, rank: u32, key: &str) -> Result<Option<Vec<u8>>, BootstrapError> {
        if rank != 0 {
            return Err(BootstrapError::NoSuchRank { rank, size: 1 });
        }
        Ok(self
            .published
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(key)
            .cloned())
    }

    fn allgather(
        &self,
        data: &[u8],
        progress: Progress<'_>,
    ) -> Result<Vec<Vec<u8>>, BootstrapError> {
        check_item(data)?;
        progress();
        Ok(vec![data.to_vec()])
    }

    fn node(&self, _rank: u32) -> u32 {
        0
    }

    fn abort(&self, code: u8, message: &str) {
        tracing::error!("abort with code {code}: {message}");
    }

    fn finalize(&self) -> Result<(), BootstrapError> {
        Ok(())
    }
}
