Gem::Specification.new do |spec|
  spec.name = "gristmill-client"
  spec.version = "0.1.0"
  spec.summary = "Push jobs to a Gristmill server, wait for their results, and work them"
  spec.authors = ["Gristmill"]
  spec.licenses = ["MIT", "Apache-2.0"]
  spec.homepage = "https://github.com/gristmill/gristmill"
  spec.required_ruby_version = ">= 3.1"
  spec.files = Dir["lib/**/*.rb"] + ["README.md"]
end
