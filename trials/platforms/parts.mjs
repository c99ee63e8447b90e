// The parts of `npm run trial -- platforms`. The workflow runs each, and docs/internals/platforms.md has a row for each.
import { kernelPart } from './kernels.mjs'
import { macos } from './macos.mjs'
import { packagePart } from './packages.mjs'
import { windows } from './windows.mjs'

export const parts = {
  'x64-musl': packagePart('x64', 'musl'),
  'arm64-gnu': packagePart('arm64', 'gnu'),
  'arm64-musl': packagePart('arm64', 'musl'),
  'kernel-5.10': kernelPart('bullseye', '5.10'),
  'kernel-6.1': kernelPart('bookworm', '6.1'),
  'kernel-6.12': kernelPart('trixie', '6.12'),
  windows,
  macos,
}
