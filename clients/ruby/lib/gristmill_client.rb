# frozen_string_literal: true

# A client of a Gristmill server: pushes jobs, waits for their results, listens to events, and works jobs as a pull worker.
module Gristmill
end

require_relative "gristmill_client/http"
require_relative "gristmill_client/worker"
require_relative "gristmill_client/client"
