# frozen_string_literal: true

require_relative "../gristmill_client"

module Gristmill
  # A Client that keeps jobs in memory, for tests. Time stands still: jobs wait until `work`, whatever their delays.
  class Fake < Client
    def initialize
      super(server: "http://fake.invalid")
      @http = Server.new
    end

    # What was pushed, as the documents of the API, each with its `topic`.
    def pushed(topic = nil) = @http.pushed.select { |job| topic.nil? || job["topic"] == topic }

    # From now on the block does each job of the topic when it is pushed.
    def inline(topic, &run) = @http.inline[topic] = run

    # Does what waits in the topic, and returns.
    def work(topic, **, &run) = @http.waiting(topic).each { |view| @http.run(view, &run) }

    # What has happened so far.
    def events(topic: nil, job: nil, kinds: nil)
      wanted = { "topic" => topic && [topic], "job" => job && [id_of(job)], "kind" => kinds }.compact
      @http.events.select { |event| wanted.all? { |name, some| some.include?(event[name]) } }.each
    end

    # In place of Http.
    class Server
      attr_reader :pushed, :inline, :events

      def initialize
        @pushed, @views, @inline, @events = [], {}, {}, []
      end

      def repeats? = false

      def call(method, path, document = nil, **)
        name = URI.decode_www_form_component(path.split("?").first.split("/")[5])
        if method == "POST"
          document = JSON.parse(JSON.generate(document))
          answers = (document["jobs"] || [document]).map { |job| push(name, job) }
          return [document["jobs"] ? { "jobs" => answers } : answers.first, 1]
        end
        view = @views[name] or raise Error.new("job-unknown", "Not Found", "job #{name} was not pushed", 404)
        return [view, 1] if method == "GET"
        raise Error.new("too-late", "Conflict", "job #{name} is over", 409) unless view["state"] == "ready"

        say(view, "job-cancelled", "state" => "finished", "result" => { "outcome" => "cancelled" })
        [{ "status" => "gone" }, 1]
      end

      def waiting(topic) = @views.values.select { |view| view["job"]["topic"] == topic && view["state"] == "ready" }

      # One attempt, and further ones at once as long as the option `attempts` allows them.
      def run(view, &run)
        most = view["job"]["attempts_max"] || 1
        (1..most).each do |attempt|
          ended = JSON.parse(JSON.generate(Gristmill.settlement(Job.new(claim(view["id"], view["job"], attempt, most)), &run)))
          if ended["ack"]
            result = { "outcome" => "complete", "output" => ended["ack"]["result"] }
            return say(view, "job-completed", "state" => "finished", "result" => result)
          end
          return say(view, "job-snoozed", {}) if ended["snooze_ms"]
          next unless ended["bury"] || attempt == most

          failure = (ended["bury"] || ended["retry"])["error"]
          failure["reason"] = ended["bury"] ? "rejected" : "failed"
          return say(view, "job-dead", "state" => "dead", "last_failure" => failure)
        end
      end

      private

      def push(topic, document)
        job = { "topic" => topic, **document }
        holder = waiting(topic).find { |view| job["unique"] && view["job"]["unique"] == job["unique"] }
        return { "id" => holder["id"], "status" => "duplicate" } if holder

        @pushed << job
        id = job["id"] || "fake-#{@views.size + 1}"
        say(@views[id] = { "id" => id, "job" => job }, "job-pushed", "state" => "ready")
        run(@views[id], &@inline[topic]) if @inline[topic]
        { "id" => id, "status" => "stored" }
      end

      def say(view, kind, changed)
        view.merge!(changed)
        @events << { "kind" => kind, "topic" => view["job"]["topic"], "job" => view["id"] }
      end

      # What a worker would get for the job.
      def claim(id, job, attempt, most)
        body = job["body_base64"] ? { "base64" => job["body_base64"] } : Gristmill.encode(job["body"]).transform_keys(&:to_s)
        spec = { "id" => id, "body" => body, "metadata" => job["metadata"].to_a, **job.slice("topic", "key") }
        { "attempt" => attempt, "attempts_max" => most, "traceparent" => job.dig("metadata", "traceparent"), "job" => { "spec" => spec } }
      end
    end
  end
end
