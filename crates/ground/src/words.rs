//! PURE: finds which of many words begin where in a text, for [`redaction`](crate::redaction) and for the proxy of a sandbox. The time
//! grows with the length of the text only, whatever the number of words: `aho-corasick` finds those that are complete, and the same
//! automaton without matches finds the ones that may begin at the end of the text.

use aho_corasick::packed::{self, Searcher};
use aho_corasick::{AhoCorasick, MatchKind};
use std::fmt;
use std::ops::Range;

/// A set of words to look for.
pub struct Words {
    /// `None`: more words than a machine's memory holds. Then nothing is ever decided.
    complete: Option<Complete>,
    begun: Beginnings,
    longest: usize,
}

/// The words found in a text.
#[derive(Debug)]
pub struct Found {
    /// Ranges from left to right without overlap. At each position the longest word counts.
    pub words: Vec<Range<usize>>,
    /// The position from which on later text decides. It is the text's length at the end of the stream.
    pub decided: usize,
}

impl fmt::Debug for Words {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Words").field("longest", &self.longest).finish_non_exhaustive()
    }
}

impl Words {
    /// Empty words are ignored.
    pub fn new(words: impl IntoIterator<Item = Vec<u8>>) -> Words {
        let words: Vec<Vec<u8>> = words.into_iter().filter(|word| !word.is_empty()).collect();
        let longest = words.iter().map(Vec::len).max().unwrap_or(0);
        let complete = Complete::new(&words);
        Words { complete, begun: Beginnings::new(words), longest }
    }

    pub fn is_empty(&self) -> bool {
        self.longest == 0
    }

    /// `ended`: no text follows.
    pub fn find(&self, text: &[u8], ended: bool) -> Found {
        let mut found = Found { words: Vec::new(), decided: 0 };
        let Some(complete) = &self.complete else { return found };
        let open = if ended { Vec::new() } else { self.open_at_the_end(text) };
        let mut open = open.into_iter().peekable();
        let mut at = 0;
        for word in complete.find(text).into_iter().chain(std::iter::once(text.len()..text.len())) {
            // A longer word that may still be completed takes precedence over a shorter one that is complete.
            while let Some(undecided) = open.next_if(|undecided| *undecided <= word.start) {
                if undecided >= at {
                    found.decided = undecided;
                    return found;
                }
            }
            at = word.end;
            if !word.is_empty() {
                found.words.push(word);
            }
        }
        found.decided = text.len();
        found
    }

    /// The positions from which the rest of the text is the beginning of a longer word, from left to right.
    fn open_at_the_end(&self, text: &[u8]) -> Vec<usize> {
        let tail = text.len().saturating_sub(self.longest.saturating_sub(1));
        let mut state = ROOT;
        for byte in &text[tail..] {
            state = self.begun.step(state, *byte);
        }
        let mut open = Vec::new();
        while state != ROOT {
            let node = &self.begun.nodes[state as usize];
            if node.children > 0 {
                open.push(text.len() - node.depth as usize);
            }
            state = node.fail;
        }
        open
    }
}

/// How complete words are found. Measured with words of one beginning in texts that often have its first byte: bytes side by side beat
/// the automaton, which beats a search for the first byte. A text that is full of that beginning is compared with each word.
enum Complete {
    SideBySide(Searcher),
    Automaton(AhoCorasick),
}

impl Complete {
    /// A text may make the search side by side compare so many words for each beginning.
    const MOST_COMPARED: usize = 32;

    fn new(words: &[Vec<u8>]) -> Option<Complete> {
        let side_by_side = || {
            let kind = packed::MatchKind::LeftmostLongest;
            packed::Config::new().match_kind(kind).builder().extend(words).build().map(Complete::SideBySide)
        };
        let automaton = || {
            let builder =
                AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).prefilter(false).build(words);
            builder.ok().map(Complete::Automaton)
        };
        let is_few = words.len() <= Complete::MOST_COMPARED;
        is_few.then(side_by_side).flatten().or_else(automaton)
    }

    /// From left to right without overlap; at each position the longest word.
    fn find(&self, text: &[u8]) -> Vec<Range<usize>> {
        match self {
            Complete::SideBySide(searcher) => searcher.find_iter(text).map(|word| word.range()).collect(),
            Complete::Automaton(automaton) => automaton.find_iter(text).map(|word| word.range()).collect(),
        }
    }
}

const ROOT: u32 = 0;

#[derive(Clone, Copy, Default)]
struct Node {
    /// Index of the first child node. The children are adjacent and ordered by their bytes.
    first_child: u32,
    children: u16,
    /// The byte that leads to this node.
    byte: u8,
    depth: u32,
    /// Index of the node for the longest proper suffix of this node's text that is the beginning of a word.
    fail: u32,
}

/// Aho and Corasick's automaton, for the beginnings of words alone.
struct Beginnings {
    nodes: Vec<Node>,
    /// The children of the root by byte. Most steps start there.
    from_root: Box<[u32; 256]>,
}

impl Beginnings {
    fn new(mut words: Vec<Vec<u8>>) -> Beginnings {
        words.sort();
        words.dedup();
        let mut nodes = vec![Node::default()];
        // The words that pass through each node: they are adjacent, because the words are sorted.
        let mut through = Vec::new();
        through.push(0..words.len());
        let mut at = 0;
        while at < nodes.len() {
            let depth = nodes[at].depth as usize;
            let mut range = through[at].clone();
            if words.get(range.start).is_some_and(|word| word.len() == depth) {
                // The shortest word comes first.
                range.start += 1;
            }
            nodes[at].first_child = nodes.len() as u32;
            while range.start < range.end {
                let byte = words[range.start][depth];
                let same = words[range.clone()].partition_point(|word| word[depth] <= byte);
                nodes.push(Node { byte, depth: depth as u32 + 1, ..Node::default() });
                through.push(range.start..range.start + same);
                nodes[at].children += 1;
                range.start += same;
            }
            at += 1;
        }
        let mut automaton = Beginnings { nodes, from_root: Box::new([ROOT; 256]) };
        automaton.link();
        automaton
    }

    /// Nodes are ordered by depth, so the link of a shallower node is known before a deeper one needs it.
    fn link(&mut self) {
        for at in 0..self.nodes.len() {
            let parent = self.nodes[at];
            for child in parent.first_child..parent.first_child + u32::from(parent.children) {
                let byte = self.nodes[child as usize].byte;
                let fail = if at == 0 { ROOT } else { self.step(parent.fail, byte) };
                self.nodes[child as usize].fail = fail;
                if at == 0 {
                    self.from_root[usize::from(byte)] = child;
                }
            }
        }
    }

    fn step(&self, mut state: u32, byte: u8) -> u32 {
        while state != ROOT {
            let node = &self.nodes[state as usize];
            let first = node.first_child as usize;
            let children = &self.nodes[first..first + usize::from(node.children)];
            if let Ok(child) = children.binary_search_by_key(&byte, |child| child.byte) {
                return (first + child) as u32;
            }
            state = node.fail;
        }
        self.from_root[usize::from(byte)]
    }
}
