// What is new in a table of agents, in lines for people: `{ NAME: { version, cases: { TITLE: WORD } } }` before and now. A line that
// begins with "!" is a case that came out otherwise.

export function changes(before, now) {
  const lines = []
  for (const [name, { version, cases }] of Object.entries(now)) {
    const old = before[name]
    if (!old) {
      lines.push(`+ ${name} ${version}: not seen before`)
      continue
    }
    if (old.version !== version) lines.push(`+ ${name}: ${old.version} -> ${version}`)
    for (const [title, word] of Object.entries(cases)) {
      const oldWord = old.cases[title]
      if (oldWord === undefined) lines.push(`+ ${name}, ${title}: ${word} (a new case)`)
      else if (oldWord !== word) lines.push(`! ${name}, ${title}: ${oldWord} -> ${word}`)
    }
    for (const title of Object.keys(old.cases))
      if (!(title in cases)) lines.push(`- ${name}, ${title}: no such case any more`)
  }
  return lines
}
