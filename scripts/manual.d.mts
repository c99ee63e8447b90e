export function renderManualPage(): Record<string, string>
