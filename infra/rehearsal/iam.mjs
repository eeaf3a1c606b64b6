// Judges requests as IAM does. Each line of stdin is
// {"role": document, "boundary": document, "controls": [document...], "requests": [{"action", "resource", "principal", "context", "resourcePolicy"}...]},
// with a boundary and service control policies if there are any. It is answered by a line with
// {"result": ["Allowed", "ImplicitlyDenied" or "ExplicitlyDenied"...]} or {"problem": "..."}.
import { createInterface } from 'node:readline'
import { runSimulation } from '@cloud-copilot/iam-simulate'

const account = '123456789012', region = 'eu-west-1'
const someRole = `arn:aws:iam::${account}:role/role`
const everything = { Version: '2012-10-17', Statement: { Effect: 'Allow', Action: '*', Resource: '*' } }
const named = (policies) => policies.map((policy, i) => ({ name: `policy ${i}`, policy }))

async function judge({ role, boundary, controls }, { action, resource, principal = someRole, context = {}, resourcePolicy }) {
  const [, , , where, owner] = resource.split(':')
  const judged = await runSimulation({
    identityPolicies: named(role ? [role] : []),
    permissionBoundaryPolicies: boundary && named([boundary]),
    serviceControlPolicies: [{ orgIdentifier: 'organisation', policies: named([everything, ...(controls ?? [])]) }],
    resourceControlPolicies: [],
    resourcePolicy,
    request: {
      action, principal, resource: { resource, accountId: owner || account },
      // Of every request, beside those of its action. IAM is in one region only.
      contextVariables: { 'aws:RequestedRegion': where || (action.startsWith('iam:') ? 'us-east-1' : region), 'aws:SecureTransport': 'true', 'aws:PrincipalAccount': account, ...(principal.startsWith('arn:') && { 'aws:PrincipalArn': principal }), ...context },
    },
  }, {})
  if (judged.resultType === 'error') throw new Error(`${action} on ${resource}: ${JSON.stringify(judged.errors)}`)
  for (const { ignoredContextKeys } of judged.results ?? [judged.result]) {
    const ignored = ignoredContextKeys?.filter((key) => key in context) ?? []
    if (ignored.length) throw new Error(`${action} on ${resource} has no condition key ${ignored}`)
  }
  return judged.overallResult
}

for await (const line of createInterface({ input: process.stdin })) {
  const { requests, ...policies } = JSON.parse(line)
  let answer
  try {
    answer = { result: await Promise.all(requests.map((request) => judge(policies, request))) }
  } catch (problem) {
    answer = { problem: problem.message }
  }
  process.stdout.write(JSON.stringify(answer) + '\n')
}
