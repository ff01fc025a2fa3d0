# frozen_string_literal: true

# Plays clients/cases.json against the server at $GRISTMILL_SERVER, and prints what came of each step, one a line.
#
#     ruby cases.rb ../cases.json TENANT      # $GRISTMILL_FAULTY is a proxy that fails pushes

require_relative "lib/gristmill_client/testing"

TENANT = ARGV[1]
NAMES = { delay_ms: :delay, keep_result_ms: :keep_result }.freeze
CLIENTS = {
  nil => Gristmill::Client.new(tenant: TENANT),
  "faulty" => Gristmill::Client.new(tenant: TENANT, server: ENV.fetch("GRISTMILL_FAULTY")),
  "moved" => Gristmill::Client.new(tenant: TENANT, server: "#{ENV.fetch("GRISTMILL_FAULTY")}/moved"),
  "stranger" => Gristmill::Client.new(tenant: TENANT, token: "gm_wrong"),
  "nowhere" => Gristmill::Client.new(tenant: TENANT, server: "http://127.0.0.1:1", tries: 2),
  "fake" => Gristmill::Fake.new
}.freeze
JOBS = {}
STREAMS = {}

def options(step)
  given = (step["options"] || {}).transform_keys(&:to_sym)
  given = given.to_h { |name, value| NAMES.key?(name) ? [NAMES[name], value / 1000.0] : [name, value] }
  given[:at] = Time.now + given.delete(:at_in_ms) / 1000.0 if given[:at_in_ms]
  given[:after] = given[:after].map { |name| JOBS[name] } if given[:after]
  given
end

def payload(name, value) = Gristmill.bytes?(value) ? { bytes: Base64.strict_encode64(value) } : value.nil? ? {} : { name => value }

# Waits until the block is true, for a minute at most.
def soon = 3000.times { yield ? break : sleep(0.02) }

# What a worker does with a job: `kind` says how it ends. Stops the worker after `most` jobs.
def function(kind, worked, most = nil, client = nil)
  lambda do |job|
    worked << { **payload(:body, job.body), attempt: job.attempt, key: job.key, traceparent: job.traceparent }
    client.stop if worked.size == most
    raise Gristmill::Retry.new("once more", after: 0) if kind == "retry" && worked.size == 1
    raise Gristmill::Snooze, 0.1 if kind == "snooze" && worked.size == 1
    raise Gristmill::Reject.new("there is no address", code: "no-address") if kind == "reject"
    raise "broken" if kind == "fail"

    if kind == "cancelled"
      client.cancel(job)
      soon { job.cancelled? }
      raise job.cancelled? ? "cancelled" : "no heartbeat"
    end
    if kind == "sigterm"
      Process.kill("TERM", Process.pid)
      soon { client.instance_variable_get(:@stopped) }
    end
    kind == "large" ? "x" * (1 << 20) : job.body
  end
end

def play(step)
  client = CLIENTS.fetch(step["client"])
  case step["do"]
  when "push"
    pushed = client.push(step["topic"], step["bytes"] ? Base64.decode64(step["bytes"]) : step["body"], **options(step))
    same = JOBS.find { |_, job| job.id == pushed.id }&.first
    JOBS[step["as"]] = pushed
    { status: pushed.status, is: same }.compact
  when "push_many"
    pushed = client.push_many(step["topic"], step["bodies"], **options(step))
    pushed.each_with_index { |job, index| JOBS["#{step["as"]}#{index}"] = job }
    { statuses: pushed.map(&:status) }
  when "wait"
    ended = client.wait(JOBS[step["job"]] || step["job"], timeout: (step["timeout_ms"] || 60_000) / 1000.0)
    { outcome: ended.outcome, **payload(:result, ended.result), failure: ended.failure&.slice("reason", "code", "message") }.compact
  when "cancel" then { cancelled: client.cancel(JOBS[step["job"]]) }
  when "work"
    client = Gristmill::Client.new(tenant: TENANT) unless step["client"]
    worked = []
    client.work(step["topic"], lease: (step["lease_ms"] || 60_000) / 1000.0, &function(step["function"], worked, step["until"], client))
    { worked: }
  when "listen"
    STREAMS[step["client"]] = client.events(topic: step["topic"])
    { listening: true }
  when "hear"
    mine = STREAMS[step["client"]].lazy.select { |event| event["job"] == JOBS[step["job"]].id }
    { kinds: mine.first(step["count"]).map { |event| event["kind"] }.sort }
  when "pushed" then { pushed: CLIENTS["fake"].pushed(step["topic"]) }
  when "inline"
    CLIENTS["fake"].inline(step["topic"], &function(step["function"], []))
    { inline: true }
  end
end

$stdout.sync = true
JSON.parse(File.read(ARGV[0]))["cases"].each do |one|
  JOBS.clear
  one["steps"].each do |step|
    line = begin
      play(step)
    rescue Gristmill::Error => e
      { error: e.code, status: e.status, address: e.detail[%r{http://[\d.:]*\d}] }.compact
    end
    puts JSON.generate(line)
  end
end
