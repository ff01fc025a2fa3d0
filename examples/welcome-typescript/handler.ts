/** Welcomes people who sign up, and asks after them three days later. */
import { Reject, Retry, config, enqueue, handle, log } from 'gristmill-guest';
import type { Job } from 'gristmill-guest';

const SECOND = 1000;
const DAY = 24 * 60 * 60 * SECOND;

type Plan = 'free' | 'pro';

interface Signup {
  email: string;
  name: string;
  plan: Plan;
  reminder: boolean;
}

interface Welcome {
  email: string;
  name: string;
  plan: Plan;
  greeting: string;
}

export const handler = handle(welcome);

export function welcome(job: Job): Welcome {
  const { email, name, plan, reminder } = checked(job.json());
  const domain = email.slice(email.indexOf('@') + 1);
  if (job.attempt === 1 && greylist().includes(domain)) {
    throw new Retry('greylisted', `${domain} takes new senders at the second try`, { after: 30 * SECOND });
  }

  log.info(reminder ? 'reminder' : 'signup', { domain, plan });
  if (!reminder) {
    const again: Signup = { email, name, plan, reminder: true };
    enqueue({ topic: job.topic, json: again, after: 3 * DAY, unique: `reminder:${email}`, priority: 'low' });
  }
  return { email, name, plan, greeting: reminder ? `Still there, ${name}?` : `Welcome, ${name}!` };
}

/** The signup, tidied up; rejects the job if it is none. */
function checked(signup: unknown): Signup {
  if (typeof signup !== 'object' || signup === null || Array.isArray(signup)) {
    throw new Reject('bad-payload', 'a signup is a JSON object');
  }
  const { email, name, plan = 'free', reminder = false } = signup as Partial<Record<keyof Signup, unknown>>;
  return {
    email: checkedEmail(email),
    name: checkedName(name),
    plan: checkedPlan(plan),
    reminder: checkedReminder(reminder),
  };
}

function checkedEmail(email: unknown): string {
  if (typeof email !== 'string') throw new Reject('invalid-email', 'the email is missing or no text');
  // Only ASCII: what becomes of other letters is a matter of language.
  const tidy = trimmed(email).replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
  if (!/^[^@]+@[^@]+\.[^@]+$/.test(tidy)) {
    throw new Reject('invalid-email', 'the email is no address such as ada@example.org');
  }
  return tidy;
}

function checkedName(name: unknown): string {
  if (typeof name !== 'string') throw new Reject('invalid-name', 'the name is missing or no text');
  const tidy = name.split(/[ \t\r\n]+/).filter(Boolean).join(' ');
  if (!tidy) throw new Reject('invalid-name', 'the name is empty');
  return tidy;
}

function checkedPlan(plan: unknown): Plan {
  if (plan !== 'free' && plan !== 'pro') throw new Reject('invalid-plan', 'the plan is neither free nor pro');
  return plan;
}

function checkedReminder(reminder: unknown): boolean {
  if (typeof reminder !== 'boolean') throw new Reject('bad-payload', 'the reminder is neither true nor false');
  return reminder;
}

/** Domains that turn new senders away at first. */
function greylist(): string[] {
  return (config.get('greylist') ?? '').split(',').map(trimmed);
}

/** Not `trim()`: that takes every white space of Unicode. */
function trimmed(text: string): string {
  return text.replace(/^[ \t\r\n]+|[ \t\r\n]+$/g, '');
}
