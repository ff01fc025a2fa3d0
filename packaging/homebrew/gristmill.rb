class Gristmill < Formula
  desc "Job runner whose handlers are WebAssembly components"
  homepage "https://github.com/gristmill/gristmill"
  url "https://github.com/gristmill/gristmill/releases/download/v@VERSION@/gristmill-@VERSION@-@TARGET@.tar.gz"
  sha256 "@SHA256@"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on :linux

  def install
    bin.install "gristmill"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/gristmill"
    zsh_completion.install "completions/_gristmill"
    fish_completion.install "completions/gristmill.fish"
    pkgshare.install Dir["share/*"], "handlers"
  end

  service do
    run [opt_bin/"gristmill", "run", "--log-format", "json"]
    keep_alive crashed: true
    working_dir var/"gristmill"
  end

  test do
    mkdir "handlers"
    cp pkgshare/"handlers/echo.wasm", "handlers/"
    assert_match "echo", shell_output("#{bin}/gristmill check")
  end
end
