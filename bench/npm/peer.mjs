// peer.mjs graphile|pgboss|pgboss-fifo enqueue JOBS CALL CALLERS [GROUPS] | burn JOBS BATCH PROCESSES [GROUPS [SECONDS]]:
// another queue, driven by its own client at the settings that its documentation recommends for throughput. Prints jobs
// a second. Jobs do nothing. Libpq's variables say where the server is.
// GROUPS: jobs go round so many groups, of each of which one job may run at a time: Graphile's named queues, pg-boss's
// groupConcurrency, or its policy key_strict_fifo. SECONDS: the burn ends then, however many jobs are left.
import { fork } from 'node:child_process'
import { createRequire } from 'node:module'

const url = `postgres://${process.env.PGUSER}@${encodeURIComponent(process.env.PGHOST)}:${process.env.PGPORT}/${process.env.PGDATABASE}`
const payload = { x: 'y'.repeat(60) }
const from = createRequire(process.env.PEER_MODULES + '/') // where npm put them
const load = (name) => import(from.resolve(name))
const quiet = () => {}
const [name, what, jobs, a, b, groups = 0, seconds = Infinity] = process.argv.slice(2)
let turn = 0
const group = () => `g${turn++ % groups}`
// n jobs; `own` gives what a job of a group says
const some = (n, plain, own) => Array.from({ length: n }, () => +groups ? { ...plain, ...own(group()) } : plain)

const peers = {
  graphile: {
    async preset(batch) {
      const { Logger } = await load('graphile-worker')
      return { worker: { connectionString: url, concurrentJobs: 24, maxPoolSize: 25, logger: new Logger(() => quiet),
        localQueue: { size: batch }, completeJobBatchDelay: 0, failJobBatchDelay: 0,
        ...(+groups && { pollInterval: 50 }) } } // by default 2 s after a fetch that met locked queues only
    },
    async producer() {
      const { makeWorkerUtils } = await load('graphile-worker')
      const utils = await makeWorkerUtils({ preset: await this.preset(500) })
      await utils.migrate()
      return {
        put: (n) => n === 1 ? utils.addJob('noop', payload)
          : utils.addJobs(some(n, { identifier: 'noop', payload }, (queueName) => ({ queueName }))),
        end: () => utils.release()
      }
    },
    async consumer(batch, ran) {
      const { run } = await load('graphile-worker')
      const runner = await run({ preset: await this.preset(batch), noHandleSignals: true, taskList: { noop: () => ran(1) } })
      return () => runner.stop()
    }
  },
  pgboss: {
    queue: {}, own: (id) => ({ group: { id } }), limit: { groupConcurrency: 1 },
    async boss() {
      const { PgBoss } = await load('pg-boss')
      const boss = new PgBoss({ connectionString: url, max: 25, supervise: false, schedule: false, monitorVacuum: false })
      boss.on('error', (e) => console.error(e.message))
      await boss.start()
      await boss.createQueue('noop', this.queue)
      return boss
    },
    async producer() {
      const boss = await this.boss()
      return {
        put: (n) => n === 1 ? boss.send('noop', payload) : boss.insert('noop', some(n, { data: payload }, this.own)),
        end: () => boss.stop({ graceful: false })
      }
    },
    async consumer(batch, ran) {
      const boss = await this.boss()
      // burstWhenBatchFull: the next fetch follows at once while batches come back full
      await boss.work('noop', { batchSize: batch, localConcurrency: 8, pollingIntervalSeconds: 0.5, burstWhenBatchFull: true,
        ...(+groups && this.limit) }, async (jobs) => ran(jobs.length))
      return () => boss.stop({ graceful: true, timeout: 10000 })
    }
  }
}
peers['pgboss-fifo'] = { ...peers.pgboss, queue: { policy: 'key_strict_fifo' }, own: (singletonKey) => ({ singletonKey }), limit: {} }

async function enqueue(peer, jobs, call, callers) {
  const { put, end } = await peer.producer()
  await put(call)
  const began = performance.now()
  let left = Math.ceil(jobs / call)
  const one = async () => { while (left-- > 0) await put(call) }
  await Promise.all(Array.from({ length: callers }, one))
  console.log((Math.ceil(jobs / call) * call * 1000 / (performance.now() - began)).toFixed(1))
  await end()
}

// The clock runs from the first handler to the last: what starting, the last completions and stopping take is left
// out, in favour of the other queue.
async function burn(name, jobs, batch, processes) {
  let began = Infinity, ended = 0, done = 0, stopping = false
  const stop = () => {
    if (stopping) return
    stopping = true
    for (const c of children) c.send('stop')
  }
  const children = Array.from({ length: processes }, () => fork(process.argv[1], [name, 'consume', jobs, batch, 1, groups]))
  if (seconds < Infinity) setTimeout(stop, seconds * 1000 + 30000).unref() // also where no job runs at all
  await Promise.all(children.map((child) => new Promise((resolve, reject) => {
    child.on('message', (m) => {
      began = Math.min(began, m.began)
      ended = Math.max(ended, m.ended)
      done += m.ran
      if (done >= jobs || ended - began > seconds * 1000) stop()
    })
    child.on('exit', (code) => code === 0 ? resolve() : reject(new Error(`a ${name} process ended with ${code}`)))
  })))
  console.log((done > 1 ? done * 1000 / (ended - began) : 0).toFixed(1))
}

async function consume(peer, batch) {
  let ran = 0, began, ended
  setInterval(() => { if (ran > 0 && process.connected) { process.send({ ran, began, ended }); ran = 0 } }, 20)
  const stop = await peer.consumer(batch, (n) => { ended = Date.now(); began ??= ended; ran += n })
  process.once('message', async () => { await stop(); process.exit(0) })
}

const peer = peers[name]
if (what === 'enqueue') await enqueue(peer, +jobs, +a, +b)
else if (what === 'burn') await burn(name, +jobs, +a, +b)
else if (what === 'consume') await consume(peer, +a)
else { console.error('usage: see the head of peer.mjs'); process.exit(2) }
