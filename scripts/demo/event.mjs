// Pi's events in a few words each. No clock, no terminal.

/** The words of a message or of a tool's result. */
export function textOf({ content } = {}) {
  return (content ?? []).map(({ text }) => text ?? '').join('')
}

/**
 * `of(event)` gives `{ shown: [[word, text], ...], live?, tool? }`: whole lines to print, the line that is still coming, the tool
 * in progress.
 */
export function eventLines() {
  let coming = ''
  let printed = ''
  let tool
  return {
    /** What was still coming when the turn was cut off. */
    rest: () => coming,
    of(event) {
      const shown = []
      let live
      switch (event.type) {
        case 'session':
          shown.push(['session', event.id])
          break
        case 'message_update': {
          const { type, delta } = event.assistantMessageEvent
          if (type !== 'text_delta') break
          coming += delta
          const whole = coming.lastIndexOf('\n')
          if (whole >= 0) shown.push(['says', coming.slice(0, whole)])
          coming = live = coming.slice(whole + 1)
          break
        }
        case 'message_end':
          if (coming) shown.push(['says', coming])
          coming = ''
          if (event.message.errorMessage) shown.push(['error', event.message.errorMessage])
          break
        case 'tool_execution_start':
          tool = event.toolName
          printed = ''
          shown.push(['tool', `${tool}: ${event.args?.command ?? JSON.stringify(event.args)}`])
          break
        case 'tool_execution_update':
        case 'tool_execution_end': {
          // Each update has all the output so far.
          const text = textOf(event.partialResult ?? event.result)
          const fresh = text.startsWith(printed) ? text.slice(printed.length) : text
          if (fresh.trim()) shown.push([event.isError ? 'failed' : 'output', fresh])
          printed = text
          if (event.type === 'tool_execution_end') tool = undefined
          break
        }
        case 'agent_end':
          shown.push(['end', `${event.messages?.length ?? 0} messages in all`])
          break
      }
      return { shown, live, tool }
    },
  }
}
