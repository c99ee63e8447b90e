import { native } from '../native'
import type { ProviderName } from './request'

/** The names of the providers. */
export function providerNames(): ProviderName[] {
  return native.providerNames()
}
