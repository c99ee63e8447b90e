export function errorFiles(): Promise<Record<string, string>>
