export function failedCoreTests(output: string): string[]
export function failedPackageTests(
  path: string,
): { passed: number; files: string[]; tests: string[]; homeless: number; errors: string[] } | undefined
