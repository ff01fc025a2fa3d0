//! `gristmill push --jsonl`: a job for each line of a file.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use anyhow::Context;

use super::exit::{Exit, Usage};
use super::push::{CHUNK, Pusher};
use super::store::Reached;
use gristmill_core::job::{NewJob, TopicId};
use gristmill_server::new_job;
use gristmill_store::StoreError;

/// Bytes of lines that are read before their jobs are pushed, unless a single line is longer.
const CHUNK_BYTES: usize = 4 << 20;
/// The longest line: the largest body of a job in base64, and the rest of it.
const LINE_BYTES: u64 = 96 << 20;
/// Some editors begin a text with it, which says nothing.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Pushes the jobs in their order, many at once, and prints an id for each. Stops at the first line that is no job, or whose job is
/// refused: the lines before it are pushed, it and those behind it are not.
pub(super) async fn push(pusher: &Pusher<'_>, topic: &TopicId, path: &Path) -> anyhow::Result<Exit> {
    let mut reader = LineReader::open(path)?;
    let mut pushing = Pushing { pusher, name: reader.name.clone(), reached: None, pushed: 0 };
    loop {
        let Chunk { jobs, behind } = reader.chunk(topic);
        if !jobs.is_empty() {
            pushing.push(jobs).await?;
        }
        match behind {
            Behind::More => {}
            Behind::Wrong(number, problem) => return Err(problem.context(pushing.failed(number, number))),
            Behind::End => return Ok(Exit::Done),
        }
    }
}

/// Where jobs are pushed to, and how far.
struct Pushing<'a> {
    pusher: &'a Pusher<'a>,
    /// Of the file.
    name: String,
    reached: Option<Reached>,
    /// The last line that is pushed; 0: none.
    pushed: u64,
}

impl Pushing<'_> {
    async fn push(&mut self, jobs: Vec<(u64, NewJob)>) -> anyhow::Result<()> {
        let reached = match self.reached.take() {
            Some(reached) => reached,
            None => self.pusher.way.reach_or_make().await?,
        };
        let (numbers, jobs): (Vec<_>, Vec<_>) = jobs.into_iter().unzip();
        let (first, last) = (numbers.first().copied().unwrap_or_default(), numbers.last().copied().unwrap_or_default());
        match self.store(&reached, jobs.clone(), last).await {
            Ok(()) => {}
            Err(error)
                if error.chain().any(|cause| matches!(cause.downcast_ref(), Some(StoreError::Unconfirmed { .. }))) =>
            {
                return Err(error.context(format!("failed to confirm {} of {}", lines(first, last), self.name)));
            }
            Err(error) if Exit::of(&error) == Exit::StoreUnavailable => {
                let failed = self.failed(first, last);
                let unknown = "whether these are stored is not known, and a repeat stores those without an `id` again";
                return Err(error.context(format!("{failed}; {unknown}")));
            }
            // One of them is refused, and with it the others: to push each alone shows which.
            Err(_) => {
                for (number, job) in numbers.into_iter().zip(jobs) {
                    let stored = self.store(&reached, vec![job], number).await;
                    stored.map_err(|error| error.context(self.failed(number, number)))?;
                }
            }
        }
        // A file that is this process's alone would keep a server from starting while the next lines are read.
        self.reached = Some(reached).filter(|reached| !reached.is_ours_alone);
        Ok(())
    }

    /// `last` is the line of the last job.
    async fn store(&mut self, reached: &Reached, jobs: Vec<NewJob>, last: u64) -> anyhow::Result<()> {
        let stored = self.pusher.store(reached, jobs).await?;
        if self.pushed == 0 {
            stored.warn(self.pusher.global, reached).await;
        }
        self.pushed = last;
        stored.show(self.pusher.global)
    }

    /// What was not pushed, and what was.
    fn failed(&self, first: u64, last: u64) -> String {
        let lines = lines(first, last);
        let pushed = match self.pushed {
            0 => "nothing is pushed".into(),
            1 => "line 1 is pushed".into(),
            last => format!("lines 1 to {last} are pushed"),
        };
        format!("failed to push {lines} of {} ({pushed})", self.name)
    }
}

fn lines(first: u64, last: u64) -> String {
    if first == last { format!("line {first}") } else { format!("lines {first} to {last}") }
}

const A_LIST: &str = "each line has one job, an object, and this begins a list: `jq -c '.[]'` puts each of its members on a line of its own";

/// A file, line by line. Empty lines count, and are no jobs.
struct LineReader {
    name: String,
    from: Box<dyn BufRead>,
    /// Of the line that was read last.
    number: u64,
}

/// The jobs of some lines, with the numbers of these.
#[derive(Debug)]
struct Chunk {
    jobs: Vec<(u64, NewJob)>,
    behind: Behind,
}

/// What follows.
#[derive(Debug)]
enum Behind {
    More,
    /// A line that is no job.
    Wrong(u64, anyhow::Error),
    End,
}

impl LineReader {
    fn open(path: &Path) -> anyhow::Result<Self> {
        let (name, from): (_, Box<dyn BufRead>) = if path == Path::new("-") {
            ("standard input".into(), Box::new(io::stdin().lock()))
        } else {
            let file = std::fs::File::open(path).with_context(|| format!("failed to open {}", path.display()))?;
            (path.display().to_string(), Box::new(BufReader::new(file)))
        };
        Ok(Self { name, from, number: 0 })
    }

    /// Blocks until the lines are there.
    fn chunk(&mut self, topic: &TopicId) -> Chunk {
        let (mut jobs, mut bytes) = (Vec::new(), 0);
        while jobs.len() < CHUNK as usize && bytes < CHUNK_BYTES {
            let line = match self.line() {
                Ok(None) => return Chunk { jobs, behind: Behind::End },
                Ok(Some(line)) => line,
                Err(problem) => return Chunk { jobs, behind: Behind::Wrong(self.number, problem) },
            };
            let line = line.trim_ascii_end();
            if line.is_empty() {
                continue;
            }
            bytes += line.len();
            if line.trim_ascii_start().starts_with('[') {
                return Chunk { jobs, behind: Behind::Wrong(self.number, Usage(A_LIST.into()).into()) };
            }
            match new_job(line, topic) {
                Ok(job) => jobs.push((self.number, job)),
                Err(problem) => return Chunk { jobs, behind: Behind::Wrong(self.number, Usage(problem).into()) },
            }
        }
        Chunk { jobs, behind: Behind::More }
    }

    fn line(&mut self) -> anyhow::Result<Option<String>> {
        self.number += 1;
        let mut line = Vec::new();
        if (&mut self.from).take(LINE_BYTES + 1).read_until(b'\n', &mut line).context("failed to read it")? == 0 {
            return Ok(None);
        }
        if line.len() as u64 > LINE_BYTES {
            return Err(Usage("it is longer than 96MiB, the most that a job may have".into()).into());
        }
        if self.number == 1 && line.starts_with(BYTE_ORDER_MARK) {
            line.drain(..BYTE_ORDER_MARK.len());
        }
        String::from_utf8(line).map(Some).map_err(|_| Usage("it is not UTF-8".into()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: impl AsRef<[u8]> + 'static) -> LineReader {
        LineReader { name: "jobs".into(), from: Box::new(io::Cursor::new(text)), number: 0 }
    }

    fn topic() -> TopicId {
        "mail".parse().unwrap()
    }

    #[test]
    fn lines_keep_their_numbers_and_the_first_wrong_one_ends_the_jobs() {
        let wrong: [(&[u8], &str); 5] = [
            (b"{\"bdy\": 1}", "there is no field `bdy`"),
            (b"{\"body\": }", "column 10"),
            (b"[1]", "each line has one job, an object, and this begins a list"),
            (b"{\"body\": 1, \"body_base64\": \"AA==\"}", "different bodies"),
            (b"\xff", "UTF-8"),
        ];
        for (wrong, expected) in wrong {
            let text = [b"{\"id\": \"a\"}\n\n{\"body\": 2}\r\n", wrong, b"\n{}\n"].concat();
            let Chunk { jobs, behind } = lines(text).chunk(&topic());
            assert_eq!(jobs.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 3]);
            let Behind::Wrong(4, problem) = behind else { panic!("{behind:?}") };
            assert!(problem.to_string().contains(expected), "{problem}");
            assert_eq!(Exit::of(&problem), Exit::Usage);
        }
    }

    #[test]
    fn a_byte_order_mark_at_the_beginning_is_no_part_of_the_first_job() {
        let Chunk { jobs, behind: Behind::End } = lines("\u{feff}{}\n{}").chunk(&topic()) else {
            panic!("there is no more")
        };
        assert_eq!(jobs.len(), 2);
        assert!(matches!(lines("{}\n\u{feff}{}").chunk(&topic()).behind, Behind::Wrong(2, _)));
    }

    #[test]
    fn chunks_are_bounded_and_lose_no_line() {
        let mut many = lines("{}\n".repeat(CHUNK as usize + 1));
        let Chunk { jobs, behind: Behind::More } = many.chunk(&topic()) else { panic!("there are more") };
        assert_eq!(jobs.len(), CHUNK as usize);
        // The last line needs no end.
        let mut large = lines(vec![format!("{{\"body\": {}1}}", " ".repeat(CHUNK_BYTES)); 2].join("\n"));
        for chunk in [many.chunk(&topic()), large.chunk(&topic()), large.chunk(&topic())] {
            assert_eq!(chunk.jobs.len(), 1);
        }
        assert!(matches!(large.chunk(&topic()).behind, Behind::End));
    }
}
