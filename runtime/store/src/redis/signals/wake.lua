-- Put, after waiters, in front of every script: what happens when a topic gets ready jobs. `at` and `topic` are as partition and topic_row of waiting make
-- them.

-- Publishes, or goes on without: a script that stopped here would leave a job in no place. A server refuses this to a user
-- without the channel. What waits for the message finds out by its next poll.
local function publish(channel, message)
  redis.pcall('PUBLISH', channel, message)
end

-- Notes when the topic was last seen in use, once a script. A topic that is not in use is forgotten after a time.
local function note_used(at, topic)
  if not topic.is_noted then redis.call('ZADD', at.topics, 'GT', at.now, topic.name) end
  topic.is_noted = true
end

-- Emits that the topic has ready jobs, unless its listeners know it: the script that adds it to `active` publishes, and wakes one
-- of the runners that wait for the topic, unless a claim comes right behind the script (`is_claimed`). A paused topic is never in there.
local function wake(at, topic)
  if redis.call('SADD', at.active, topic.name) == 0 then return end
  note_used(at, topic)
  if redis.call('SISMEMBER', at.paused, topic.name) == 1 then
    redis.call('SREM', at.active, topic.name)
  else
    publish(at.wake, 'ready ' .. topic.name)
    if not topic.is_claimed then wake_one(topic.waiters, ready_message(at.jobs, topic.name)) end
  end
end
