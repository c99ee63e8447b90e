export function manuals(): Record<string, string>
