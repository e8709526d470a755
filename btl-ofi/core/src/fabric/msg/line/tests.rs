use super::*;

/// A line without a real target; the test acts as a target that knows this process.
fn line() -> Line {
    let mut line = Line::new((NonNull::dangling(), 0), (2, 1));
    line.client = 0;
    line
}

/// Returns random numbers below `n`; equal seeds give equal numbers.
fn numbers(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed;
    move |n| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    }
}

/// Answers the oldest batch whose answer is due. The answer also covers the batches before this
/// batch.
fn answer(line: &mut Line, batches: &[(usize, Kind)]) {
    let is_asked = |n: &u32| batches[*n as usize].1 == Kind::Batch;
    let position = line.unanswered.iter().position(is_asked);
    let position = position.expect("the line waits for nothing");
    let number = line.unanswered[position];
    let mut answered = vec![number];
    let is_unanswered = |n: u32| batches[n as usize].1 == Kind::Unanswered;
    line.take_covered(position, is_unanswered, &mut answered);
    line.unanswered.retain(|n| *n != number);
    for number in answered {
        line.has_arrived(batches[number as usize].0);
    }
}

/// A line that may not send has an answer due, and the bytes of its unanswered batches are counted.
#[test]
fn a_line_that_waits_has_an_answer_due() {
    for seed in 0..50 {
        let mut below = numbers(seed);
        let mut line = line();
        let mut batches = Vec::new();
        for number in 0..200 {
            let bytes = [16, 4000, 131_072][below(3)];
            let reported = below(4) == 0;
            line.waiting.push_back(number);
            while !line.may_send() {
                answer(&mut line, &batches);
            }
            let kind = line.kind(reported);
            line.is_sent(kind, bytes);
            batches.push((bytes, kind));
            let total: usize = line.unanswered.iter().map(|n| batches[*n as usize].0).sum();
            assert_eq!(line.unanswered_bytes(), total);
            assert!(line.unanswered.len() <= WINDOW && line.due() <= MOST_DUE);
            if below(3) == 0 && line.is_due() {
                answer(&mut line, &batches);
            }
        }
    }
}
