export function checkSite(
  folder: string,
  base?: string,
): { broken: string[]; files: number; links: number }
