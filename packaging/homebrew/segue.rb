# The Homebrew formula of a release. The names between @ signs are filled in by packaging/finish.sh.
class Segue < Formula
  desc "Durable runtime for LLM agents with reviewed handoffs to fresh threads"
  homepage "https://github.com/@REPOSITORY@"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

  on_macos do
    on_arm do
      url "https://github.com/@REPOSITORY@/releases/download/v@VERSION@/segue-@VERSION@-aarch64-apple-darwin.tar.gz"
      sha256 "@SHA256_MACOS_ARM@"
    end
    on_intel do
      url "https://github.com/@REPOSITORY@/releases/download/v@VERSION@/segue-@VERSION@-x86_64-apple-darwin.tar.gz"
      sha256 "@SHA256_MACOS_INTEL@"
    end
  end

  on_linux do
    on_arm do
      url "https://github.com/@REPOSITORY@/releases/download/v@VERSION@/segue-@VERSION@-aarch64-unknown-linux-gnu.tar.gz"
      sha256 "@SHA256_LINUX_ARM@"
    end
    on_intel do
      url "https://github.com/@REPOSITORY@/releases/download/v@VERSION@/segue-@VERSION@-x86_64-unknown-linux-gnu.tar.gz"
      sha256 "@SHA256_LINUX_INTEL@"
    end
  end

  def install
    bin.install "segue"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/segue.bash" => "segue"
    fish_completion.install "completions/segue.fish"
    zsh_completion.install "completions/_segue"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/segue --version")
  end
end
