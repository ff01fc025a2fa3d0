//! A program that carries out the lines of its standard input. It knows nothing of Gristmill: the tests build it for
//! `wasm32-wasip2` and drop it into the handlers folder.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "what it is for")]

use std::error::Error;
use std::io::{Write, read_to_string, stdin, stdout};
use std::net::{TcpStream, ToSocketAddrs};

fn main() -> Result<(), Box<dyn Error>> {
    for line in read_to_string(stdin())?.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "say" => println!("{rest}"),
            "complain" => eprintln!("{rest}"),
            "args" => println!("{}", std::env::args().collect::<Vec<_>>().join(" ")),
            "env" => {
                let mut variables: Vec<_> = std::env::vars().collect();
                variables.sort();
                variables.iter().for_each(|(name, value)| println!("{name}={value}"));
            }
            "bytes" => stdout().write_all(&vec![b'x'; rest.parse()?])?,
            "connect" => println!("{}", ended(TcpStream::connect(rest))),
            "look-up" => println!("{}", ended(rest.to_socket_addrs())),
            "exit" => std::process::exit(rest.parse()?),
            "fail" => return Err(rest.into()),
            _ => return Err(format!("there is no {word:?}").into()),
        }
    }
    Ok(())
}

fn ended<T>(result: std::io::Result<T>) -> String {
    result.map_or_else(|error| error.to_string(), |_| "it worked".to_owned())
}
