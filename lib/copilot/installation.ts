// Questions of runtimes since 1.0.89 to their program, about extensions and installations.
import { onAbort, orAborted } from '../abort'

import type {
  ExtensionLaunchProviderResolveRequest,
  ExtensionLaunchProviderResolveResult,
  InstallationConfirmationRequest,
  InstallationConfirmationResponse,
  InstallationDecision,
} from './generated'

export type {
  ExtensionLaunchProfile,
  ExtensionLaunchProviderResolveRequest,
  ExtensionLaunchProviderResolveResult,
  InstallationConfirmationRequest,
  InstallationConfirmationResponse,
  InstallationDecision,
  InstallationReview,
  McpInstallationReview,
} from './generated'
/** Decides how extensions are launched. */
export interface ExtensionLaunchProvider {
  /**
   * Gives the launch profile of an extension. The runtime waits 15 seconds. Without `launch` in the
   * answer your program does not launch this extension.
   */
  resolve(params: ExtensionLaunchProviderResolveRequest): Promise<ExtensionLaunchProviderResolveResult>
}

/** Tells when a question is no longer open: it was withdrawn, or the runtime is gone. */
export interface InstallationCancellation {
  /** True when the question is no longer open. */
  readonly isCancellationRequested: boolean
  /** Subscribes to the withdrawal of the question. */
  onCancellationRequested(listener: (event: unknown) => unknown): { dispose(): void }
}
/** Asks a person whether something may be installed. */
export type InstallationConfirmationHandler = (
  request: InstallationConfirmationRequest,
  cancellation: InstallationCancellation,
) => InstallationDecision | Promise<InstallationDecision>

/** @internal The open questions of a connection. */
export class InstallationQuestions {
  readonly #open = new Map<string, AbortController>()

  constructor(private readonly handler: InstallationConfirmationHandler) {}

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
        return { dispose: onAbort(signal, () => listener(undefined)) }
      },
    }
    const takenBack = () => new Error('The installation question was withdrawn')
    try {
      const decided = (async () => this.handler(request, cancellation))()
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
