export function fileOf(folder: string, path: string): string | undefined
export function checkSite(
  folder: string,
  base?: string,
): { broken: string[]; files: number; links: number }
