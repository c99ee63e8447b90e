// Options of the calls for operators: filters of jobs, prunes, schedules.
import type { FilterSpec, PruneSpec } from '../../native/native'
import { invalidOption } from '../error'
import { check, checkOptions, type Checks, type Crossing } from '../option'
import type { JobState } from './record'
import { jobSpec, jobText, type JobOptions } from './submission'

/** Jobs that are meant: those that fit all of these. */
export interface JobFilter {
  /**
   * Jobs in this state, or in one of these.
   *
   * @default every state
   */
  state?: JobState | readonly JobState[]
  /**
   * Jobs of this queue.
   *
   * @default all queues
   */
  queue?: string
  /**
   * Jobs that have this tag.
   *
   * @default with or without tags
   */
  tag?: string
  /**
   * Jobs whose title contains this text, in upper or lower case.
   *
   * @default any title
   */
  title?: string
}

/** Jobs that `fleet.jobs()` lists. */
export interface JobListOptions extends JobFilter {
  /**
   * Number of jobs after which the list ends.
   *
   * @default no limit
   */
  limit?: number
  /**
   * Id of a job; the list begins after it. Pass the last id of a page to get the next page. A job whose
   * state changes between two pages may be on both.
   *
   * @throws JOB_NOT_FOUND
   * @default the first job
   */
  after?: string
}

/** Jobs that `fleet.prune()` removes. */
export interface PruneOptions {
  /** Jobs that ended at least this many milliseconds ago. */
  olderThanMs: number
  /**
   * Only jobs in these states.
   *
   * @default every state in which a job is over
   */
  states?: readonly JobState[]
  /**
   * Only jobs of this queue.
   *
   * @default all queues
   */
  queue?: string
  /**
   * Count what would be removed, and remove nothing.
   *
   * @default false
   */
  dryRun?: boolean
}

/** Numbers of what `fleet.prune()` removed. */
export interface Pruned {
  /** Number of jobs. */
  jobs: number
  /** Number of results, artifacts, sessions and long specs. */
  objects: number
  /** Size of the objects in bytes. */
  bytes: number
}

/** Times of a schedule. */
export interface ScheduleOptions {
  /**
   * Cron expression: minute, hour, day of the month, month, day of the week. A sixth field in front is
   * the second. `@daily` and its like are known.
   */
  cron: string
  /**
   * Time zone of the expression, such as `"Europe/Berlin"`.
   *
   * @default "UTC"
   */
  timeZone?: string
  /**
   * Policy for runs that are more than a minute late, because no member of the fleet was there: `"skip"`
   * drops them, `"once"` starts the last one of them.
   *
   * @default "skip"
   */
  catchUp?: 'skip' | 'once'
}

/** A schedule of jobs. Times are milliseconds since 1970. */
export interface FleetSchedule extends Required<ScheduleOptions> {
  /** Id of the schedule. */
  id: string
  /** The job that each run submits. */
  job: Record<string, unknown>
  /** Time at which the schedule was set. */
  createdAt: number
  /** Time of the last run that was started or skipped. */
  lastAt?: number
  /** Time of the next run. */
  nextAt?: number
}

const states: JobState[] = ['queued', 'running', 'done', 'failed', 'cancelled', 'dead']
const overStates: JobState[] = ['done', 'failed', 'cancelled', 'dead']

const oneState = check.oneOf(...states)
const allStates = check.listOf(oneState, 'a state, or an array of states')

/** Refuses an empty list, which would mean every state to the core. */
function checkNotEmpty(path: string, value: unknown): void {
  if (Array.isArray(value) && value.length === 0)
    throw invalidOption(path, 'expected at least one state, got an empty array')
}

const filterChecks = {
  queue: check.name,
  state(path: string, value: unknown) {
    if (typeof value === 'string') return oneState(path, value)
    allStates(path, value)
    checkNotEmpty(path, value)
  },
  tag: check.name,
  title: check.name,
} satisfies Checks<JobFilter>
const listChecks = {
  ...filterChecks,
  limit: check.count,
  after: check.name,
} satisfies Checks<JobListOptions>
const pruneChecks = {
  olderThanMs: check.duration,
  states(path: string, value: unknown) {
    check.listOf(check.oneOf(...overStates), 'an array of strings')(path, value)
    checkNotEmpty(path, value)
  },
  queue: check.name,
  dryRun: check.boolean,
} satisfies Checks<PruneOptions>
const scheduleChecks = {
  cron: check.name,
  timeZone: check.name,
  catchUp: check.oneOf('skip', 'once'),
} satisfies Checks<ScheduleOptions>

/** @internal */
export function checkList(options: JobListOptions): void {
  checkOptions(options, listChecks, 'filter')
}

/** @internal The filter as the core takes it, checked. */
export function filterSpec(filter: JobFilter): FilterSpec {
  checkOptions(filter, filterChecks, 'filter')
  const { state = [], ...rest } = filter
  rest satisfies Crossing<typeof rest, FilterSpec>
  return { ...rest, states: typeof state === 'string' ? [state] : state }
}

/** @internal The prune as the core takes it, checked. */
export function pruneSpec(options: PruneOptions): PruneSpec {
  checkOptions(options, pruneChecks)
  if (options?.olderThanMs === undefined)
    throw invalidOption('olderThanMs', 'expected a number of milliseconds, got undefined')
  const { states = [], dryRun = false, ...rest } = options
  rest satisfies Crossing<typeof rest, PruneSpec>
  return { ...rest, states, dryRun }
}

/** @internal The schedule as the core takes it, checked. */
export function scheduleSpec(id: string, options: ScheduleOptions, job: JobOptions): string {
  check.name('id', id)
  check.object('options', options)
  checkOptions(options, scheduleChecks)
  if (options.cron === undefined) throw invalidOption('cron', 'expected a cron expression, got undefined')
  return jobText({ ...options, id, job: jobSpec(job) })
}

/** @internal A job as its submitter wrote it. */
export function shownSchedule(schedule: FleetSchedule): FleetSchedule {
  const { options, id: _, submittedAt: __, ...job } = schedule.job
  return { ...schedule, job: { ...(options as object), ...job } }
}
