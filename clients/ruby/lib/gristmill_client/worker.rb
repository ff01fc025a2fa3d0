# frozen_string_literal: true

require "base64"

module Gristmill
  # How an attempt ends without a result.
  class Ending < StandardError
    attr_reader :code, :after

    def initialize(message = "", code: nil, after: nil)
      super(message)
      @code, @after = code || self.class.name.split("::").last.downcase, after
    end
  end

  # The attempt failed; the next one comes `after` so many seconds, or by the topic's backoff.
  Retry = Class.new(Ending)
  # The job can never succeed: it is dead at once.
  Reject = Class.new(Ending)

  # Run the job again after so many seconds, with no attempt used.
  class Snooze < Ending
    def initialize(after) = super("again in #{after} s", after:)
  end

  # A claimed job. `previous` is in which way the last attempt failed, such as `timeout`.
  class Job
    attr_reader :id, :topic, :key, :metadata, :attempt, :attempts_max, :previous, :traceparent, :lease

    def initialize(claim)
      @id, @topic, @key, @payload, pairs = claim["job"]["spec"].values_at("id", "topic", "key", "body", "metadata")
      @metadata, @cancelled = pairs.to_h, false
      @lease, @attempt, @attempts_max, @previous, @traceparent = claim.values_at(*%w[lease attempt attempts_max previous traceparent])
    end

    # What its JSON says, or a text, or bytes (a string of the encoding BINARY).
    def body = Gristmill.decode(@payload)

    # There is no point in going on: the job was cancelled, or another worker has it.
    def cancelled? = @cancelled

    def cancel = @cancelled = true
  end

  # One call of `work`.
  class Worker
    def initialize(http, tenant, topic, lease, name, stopped, &run)
      @http, @tenant, @stopped, @run, @lease_ms = http, tenant, stopped, run, (lease * 1000).round
      @claims = "#{tenant}/topics/#{topic}/claim"
      @asked = { lease_ms: @lease_ms, wait_ms: 30_000, worker: name || "ruby-#{Process.pid}" }
      @running, @claiming, @lock = [], {}, Mutex.new
    end

    # `stop` ends all workers of the client.
    def start(concurrency, stop)
      # A trap may lock nothing.
      old = trap("TERM") { Thread.new(&stop) }
      heart = Thread.new { loop { sleep(@lease_ms / 3000.0) && beat } }
      threads = Array.new(concurrency) { Thread.new { claims(stop) }.tap { |thread| thread.report_on_exception = false } }
      threads.each(&:join)
    ensure
      stop.call
      threads&.each { |thread| thread.join rescue nil }
      heart&.kill
      trap("TERM", old)
    end

    # Breaks the connections of claims that wait: the server takes back what it was about to give.
    def interrupt = @lock.synchronize { @claiming.each_value { |http| http.finish rescue nil } }

    private

    def claims(stop)
      until @stopped.call
        begin
          answer, = @http.call("POST", @claims, @asked, tries: 1) do |http|
            @lock.synchronize { @claiming[Thread.current] = http }
            raise IOError, "stopped" if @stopped.call
          end
          @lock.synchronize { @claiming.delete(Thread.current) }
          answer["claims"].each { |claim| work(Job.new(claim)) }
        rescue Error => e
          next if @stopped.call
          stop.call and raise unless e.temporary? || e.status >= 500

          warn "gristmill: no claim: #{e.message}"
          sleep [1, e.retry_after].max
        end
      end
    end

    def work(job)
      @lock.synchronize { @running << job }
      ended = @stopped.call ? { release: {} } : Gristmill.settlement(job, &@run)
      @lock.synchronize { @running.delete(job) }
      settle(job, ended)
    rescue Error => e
      warn "gristmill: job #{job.id} is not settled: #{e.message}"
      # Such as a result that is too large.
      settle(job, { retry: { error: { code: e.code, message: e.detail } } }) rescue nil
    end

    def settle(job, ended) = @http.call("POST", "#{@tenant}/leases/settle", { settlements: [{ lease: job.lease, **ended }] })

    # Extends the leases of the jobs that run.
    def beat
      jobs = @lock.synchronize { @running.dup }
      return if jobs.empty?

      answer, = @http.call("POST", "#{@tenant}/leases/extend", { leases: jobs.map(&:lease), lease_ms: @lease_ms }, tries: 1)
      jobs.zip(answer["extended"]) { |job, word| job.cancel unless word == "extended" }
    rescue Error
      nil # The next one is soon.
    end
  end

  class << self
    # Runs the block, and says how the attempt ended.
    def settlement(job)
      value = yield job
      { ack: value.nil? ? {} : { result: encode(value) } }
    rescue Snooze => e
      { snooze_ms: (e.after * 1000).round }
    rescue StandardError, NotImplementedError => e
      failure = { error: { code: e.is_a?(Ending) ? e.code : e.class.name, message: e.message } }
      return { bury: failure } if e.is_a?(Reject)
      return { release: {} } if job.cancelled?

      failure[:after_ms] = (e.after * 1000).round if e.is_a?(Retry) && e.after
      { retry: failure }
    end

    def decode(payload)
      return if payload.nil?
      return Base64.decode64(payload["base64"]) if payload["base64"]

      payload["content_type"].to_s.start_with?("application/json") ? JSON.parse(payload["text"]) : payload["text"]
    end

    def encode(value)
      return { text: JSON.generate(value), content_type: "application/json" } unless bytes?(value)

      { base64: Base64.strict_encode64(value), content_type: "application/octet-stream" }
    end

    def bytes?(value) = value.is_a?(String) && value.encoding == Encoding::BINARY
  end
end
