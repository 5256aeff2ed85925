# tls.rb DIR SOCKET: a proxy that speaks TLS to its clients and none to the server at SOCKET, as clouds have them:
# what comes from the server together it puts into records of 16 kB, twice as large as the server's own. Into DIR
# go ca.crt, other.crt (of a CA that has signed nothing) and port.
require 'openssl'
require 'socket'

dir, path = ARGV

def certify(name, key, by = nil, by_key = key)
  cert = OpenSSL::X509::Certificate.new
  cert.version = 2
  cert.serial = rand(1 << 64)
  cert.subject = OpenSSL::X509::Name.new([['CN', name]])
  cert.issuer = by ? by.subject : cert.subject
  cert.public_key = key
  cert.not_before = Time.now - 86_400
  cert.not_after = Time.now + 86_400
  made = OpenSSL::X509::ExtensionFactory.new(by || cert, cert)
  cert.add_extension(made.create_extension('basicConstraints', by ? 'CA:FALSE' : 'CA:TRUE', true))
  cert.add_extension(made.create_extension('subjectAltName', "DNS:#{name}")) if by
  cert.sign(by_key, 'SHA256')
end

keys = Array.new(3) { OpenSSL::PKey::EC.generate('prime256v1') }
ca = certify('ca', keys[0])
File.write("#{dir}/ca.crt", ca.to_pem)
File.write("#{dir}/other.crt", certify('other', keys[1]).to_pem)
context = OpenSSL::SSL::SSLContext.new
context.add_certificate(certify('localhost', keys[2], ca, keys[0]), keys[2])

def pump(from, to, wait)
  loop do
    data = from.readpartial(1 << 20)
    data << from.readpartial(1 << 20) while wait && from.wait_readable(wait)
    to.write(data)
  end
rescue IOError, SystemCallError, OpenSSL::SSL::SSLError
  [from, to].each { |s| s.close unless s.closed? }
end

listener = TCPServer.new('127.0.0.1', 0)
File.write("#{dir}/port.new", listener.addr[1])
File.rename("#{dir}/port.new", "#{dir}/port")
loop do
  Thread.new(listener.accept) do |client|
    server = UNIXSocket.new(path)
    head = client.read(8)
    if head == [8, 80_877_103].pack('NN') # SSLRequest
      client.write('S')
      client = OpenSSL::SSL::SSLSocket.new(client, context)
      client.sync_close = client.sync = true
      client.accept
    else
      server.write(head)
    end
    Thread.new { pump(client, server, nil) }
    pump(server, client, 0.01)
  rescue IOError, SystemCallError, OpenSSL::SSL::SSLError
    [client, server].each { |s| s&.close unless s&.closed? }
  end
end
