// What a runtime since 1.0.89 asks its program about extensions and installations.

import { onAbort, orAborted } from '../abort'

/** An extension's entry point that the runtime found. */
export interface ExtensionLaunchProviderResolveRequest {
  id: string
  name: string
  modulePath: string
  source: string
}
export interface ExtensionLaunchProfile {
  executable: string
  args: string[]
  env: { [name: string]: string | undefined }
}
/** Without `launch`: not one that this program launches. */
export interface ExtensionLaunchProviderResolveResult {
  launch?: ExtensionLaunchProfile
}
export interface ExtensionLaunchProvider {
  /** The runtime waits 15 seconds. */
  resolve(params: ExtensionLaunchProviderResolveRequest): Promise<ExtensionLaunchProviderResolveResult>
}

export type InstallationDecision = 'confirm' | 'decline' | 'cancel'
export interface InstallationConfirmationRequest {
  policySessionId?: string
  confirmationId: string
  operationId: string
  expiresAt: string
  reviewFingerprint: string
  /** What is to be installed, as the runtime describes it. */
  review: { resource: string; review: { [field: string]: unknown } }
}
export interface InstallationConfirmationResponse {
  confirmationId: string
  reviewFingerprint: string
  decision: InstallationDecision
}
/** Tells when the question is void: taken back, or the runtime is gone. */
export interface InstallationCancellation {
  readonly isCancellationRequested: boolean
  onCancellationRequested(listener: () => void): { dispose(): void }
}
export type InstallationConfirmationHandler = (
  request: InstallationConfirmationRequest,
  cancellation: InstallationCancellation,
) => InstallationDecision | Promise<InstallationDecision>

/** The open questions of a connection. */
export class InstallationQuestions {
  readonly #handler: InstallationConfirmationHandler
  readonly #open = new Map<string, AbortController>()

  constructor(handler: InstallationConfirmationHandler) {
    this.#handler = handler
  }

  /** `id` is the request's, as JSON text. */
  async ask(id: string, request: InstallationConfirmationRequest): Promise<InstallationConfirmationResponse> {
    const controller = new AbortController()
    const { signal } = controller
    this.#open.set(id, controller)
    const cancellation: InstallationCancellation = {
      get isCancellationRequested() {
        return signal.aborted
      },
      onCancellationRequested(listener) {
        return { dispose: onAbort(signal, listener) }
      },
    }
    const takenBack = () => new Error('The installation question was taken back')
    try {
      const decided = (async () => this.#handler(request, cancellation))()
      const decision = await orAborted(decided, signal, takenBack)
      if (!['confirm', 'decline', 'cancel'].includes(decision))
        throw new Error('Invalid installation confirmation decision')
      const { confirmationId, reviewFingerprint } = request
      return { confirmationId, reviewFingerprint, decision }
    } finally {
      this.#open.delete(id)
    }
  }

  takeBack(id: string): void {
    this.#open.get(id)?.abort()
  }

  takeBackAll(): void {
    for (const controller of this.#open.values()) controller.abort()
  }
}
