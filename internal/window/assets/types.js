// @ts-check
// The types of what the server sends. The Go packages view, journal, explain and plan say what they mean.

/** @typedef {{apiVersion: string, kind: string, namespace?: string, name: string}} Named */
/** @typedef {{namespace: string, name: string}} Key */
/** @typedef {[namespace: string, name: string, state: string, reason: string, since: string, children: number, lastPass: string]} Row */

/** @typedef {{namespace: string, name: string, identity: string, held: boolean, holder: string, renewed?: string}} Lease */
/**
 * @typedef {{time: string, operator: string, parent: string, host: string, started: string, leading: boolean, dryRun: boolean,
 *   synced: boolean, lease: Lease | null, queue: number, running: number, workers: number, longestMs: number, watches: Watch[],
 *   plots: Plots}} Figures
 */
/** @typedef {{type: string, role: string, objects: number, bytes: number, heard?: string, problem: string}} Watch */
/**
 * @typedef {{stepSeconds: number, passes: number[], errors: number[], writes: Record<string, number[]>, queue: number[],
 *   p50: number[], p95: number[]}} Plots
 */

/** @typedef {{process: Process, passes: Pass[], events: Event[]}} Family */
/** @typedef {{time: string, type: string, reason: string, message: string}} Event */
/**
 * @typedef {{number: number, id?: string, start: string, ms: number, waitedMs: number, trigger: string, more: number, call: string,
 *   callMs: number, error: string, throttled: boolean, writes: Write[], moreWrites: number}} Pass
 */
/** @typedef {Named & {verb: string, ms: number, result: string, error: string, fields: string[], moreFields: number}} Write */

/** @typedef {{operator: string, parent: Parent, children: Child[] | null, related: Related[] | null, process: Process}} Explanation */
/**
 * @typedef {Named & {state: string, reason?: string, error?: string, failingSince?: string, generation?: number,
 *   observedGeneration?: number, deletedAt?: string, finalizers?: string[], conditions?: Condition[], fields?: Field[]}} Parent
 */
/** @typedef {{type: string, status: string, reason: string, message: string, lastTransitionTime: string | null}} Condition */
/**
 * @typedef {Named & {state: string, verb?: string, reason?: string, waitsFor?: Named[], error?: string, readiness?: string,
 *   readinessMessage?: string, finalizers?: string[], fields?: Field[]}} Child
 */
/** @typedef {{path: string, live: unknown, desired: unknown, by?: Writer, perhaps?: Writer}} Field */
/** @typedef {{manager: string, operation: string, subresource?: string, time?: string, self?: boolean}} Writer */
/**
 * @typedef {{apiVersion: string, kind: string, namespace?: string, name?: string, selector?: string, from: string[] | null,
 *   found: Named[] | null, notServed?: boolean}} Related
 */
/**
 * @typedef {{unknown?: string, from?: string, leading: boolean, held: boolean, running: boolean, runningSince?: string, call?: string,
 *   queued: boolean, place?: number, nextPass?: string, trigger?: string, failures?: number, failingSince?: string,
 *   lastError?: string, childErrors?: (Named & {verb: string, reason?: string, message: string})[], waits?: string[],
 *   throttled?: boolean, loop?: Loop}} Process
 */
/** @typedef {Named & {path?: string, values?: string[], writes: number}} Loop */

/** @typedef {{namespace: string, name: string, changes: Change[] | null, error: string}} Planned */
/** @typedef {{object: {namespace?: string, name: string}, type: {apiVersion: string, kind: string}, verb: string,
 *   fields: {path: string, live: unknown, desired: unknown}[], waits?: string, unsure?: boolean}} Change */

export {};
