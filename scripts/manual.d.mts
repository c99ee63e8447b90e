export const manualFile: string
export function manual(): string
