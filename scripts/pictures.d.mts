export function pictures(): Record<string, string>
