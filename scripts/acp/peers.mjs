export async function runPeers() {}
